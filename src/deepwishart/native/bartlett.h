// Bartlett factors and their densities.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "support.h"

namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;

// A Bartlett factor, loc + scale * noise below the diagonal and sqrt(gamma / rate) on it, with the
// log density of A A^T relative to prod_j A_jj^tilt; formulas in operations/wishart.py.
std::tuple<Tensor, Tensor> scored_factor_forward(const Tensor& gamma, const Tensor& concentration,
                                                 const Tensor& rate, const Tensor& loc,
                                                 const Tensor& scale, const Tensor& noise,
                                                 double tilt) {
  const int64_t size = loc.size(0), width = loc.size(1);
  Tensor factor = at::empty_like(noise), log_density = like(noise, {noise.size(0)});
  double constant = 0;  // what no sample changes
  with_dtype(noise, [&]<typename T>(T) {
    const T *alpha = from<T>(concentration), *beta = from<T>(rate), *sigma = from<T>(scale);
    for (int64_t j = 0; j < width; ++j)
      constant += alpha[j] * std::log(beta[j]) - std::lgamma(static_cast<double>(alpha[j]));
    for (int64_t i = 0; i < size; ++i)
      for (int64_t at = i * width; at < i * width + std::min(i, width); ++at)
        constant -= std::log(sigma[at]) + kHalfLogTwoPi;
  });
  for_each_sample(noise, [&]<typename T>(T, int64_t s) {
    const T *mu = from<T>(loc), *sigma = from<T>(scale), *epsilon = from<T>(noise, s);
    const T *alpha = from<T>(concentration), *beta = from<T>(rate), *g = from<T>(gamma, s);
    T* out = into<T>(factor, s);
    double total = constant;
    for (int64_t i = 0; i < size; ++i) {
      T squares = 0;
      for (int64_t j = 0; j < width; ++j) {
        const int64_t at = i * width + j;
        const bool below = i > j;
        out[at] = below ? mu[at] + sigma[at] * epsilon[at] : T(0);
        squares += below ? epsilon[at] * epsilon[at] : T(0);
      }
      total -= 0.5 * squares;
    }
    for (int64_t j = 0; j < width; ++j) {
      const double power = 2.0 * (alpha[j] - 1.0) - static_cast<double>(size - 1 - j) - tilt;
      const T diagonal = std::sqrt(g[j] / beta[j]);
      out[j * width + j] = diagonal;
      total += power * std::log(diagonal) - g[j];  // beta A_jj^2 is g_j
    }
    *into<T>(log_density, s) = static_cast<T>(total);
  });
  return {factor, log_density};
}

// Gradients of gamma, rate, loc, scale along the sample, the density's slopes having the weights q.
std::tuple<Tensor, Tensor, Tensor, Tensor> scored_factor_backward(
    const Tensor& gamma, const Tensor& concentration, const Tensor& rate, const Tensor& scale,
    const Tensor& noise, double tilt, const Tensor& grad, const Tensor& slope,
    const Tensor& weight) {
  const int64_t batch = noise.size(0), size = scale.size(0), width = scale.size(1);
  Tensor grad_gamma = at::empty_like(gamma), grad_rate = at::zeros_like(rate),
         grad_loc = at::zeros_like(scale), grad_scale = at::zeros_like(scale);
  with_dtype(noise, [&]<typename T>(T) {
    const T *beta = from<T>(rate), *alpha = from<T>(concentration), *sigma = from<T>(scale);
    const T *gd = from<T>(slope), *q = from<T>(weight);
    for (int64_t s = 0; s < batch; ++s) {
      const T *g = from<T>(gamma, s), *incoming = from<T>(grad, s);
      for (int64_t j = 0; j < width; ++j) {
        const T power = T(2) * (alpha[j] - T(1)) - static_cast<T>(size - 1 - j) -
                        static_cast<T>(tilt);
        const T diagonal = std::sqrt(g[j] / beta[j]);
        // A_jj / 2 times its gradient, which is that of log g_j and minus that of log beta_j
        const T half = T(0.5) * incoming[j * width + j] * diagonal + gd[s] * (T(0.5) * power - g[j]);
        into<T>(grad_gamma, s)[j] = half / g[j];
        into<T>(grad_rate)[j] -= half / beta[j];
      }
    }
    at::parallel_for(0, size, 16, [&](int64_t begin, int64_t end) {
      T *loc = into<T>(grad_loc), *out = into<T>(grad_scale);
      for (int64_t s = 0; s < batch; ++s) {
        const T *epsilon = from<T>(noise, s), *incoming = from<T>(grad, s);
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t at = i * width; at < i * width + std::min(i, width); ++at) {
            const T along = incoming[at] - q[s] * epsilon[at] / sigma[at];
            loc[at] += along;
            out[at] += along * epsilon[at];
          }
        }
      }
    });
  });
  return {grad_gamma, grad_rate, grad_loc, grad_scale};
}

}  // namespace
