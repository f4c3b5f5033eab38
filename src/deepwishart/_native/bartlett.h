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
  const int64_t batch = noise.size(0), size = loc.size(0), width = loc.size(1);
  Tensor factor = at::empty_like(noise), log_density = like(noise, {batch});
  AT_DISPATCH_FLOATING_TYPES(noise.scalar_type(), "scored_factor", [&] {
    const scalar_t *mu = loc.const_data_ptr<scalar_t>(), *sigma = scale.const_data_ptr<scalar_t>();
    const scalar_t* alpha = concentration.const_data_ptr<scalar_t>();
    const scalar_t* beta = rate.const_data_ptr<scalar_t>();
    double constant = 0;  // what no sample changes
    for (int64_t j = 0; j < width; ++j)
      constant += alpha[j] * std::log(beta[j]) - std::lgamma(static_cast<double>(alpha[j]));
    for (int64_t i = 0; i < size; ++i)
      for (int64_t at = i * width; at < i * width + std::min(i, width); ++at)
        constant -= std::log(sigma[at]) + kHalfLogTwoPi;
    for_each_sample(batch, [&](int64_t s) {
      const scalar_t* epsilon = noise.const_data_ptr<scalar_t>() + s * size * width;
      const scalar_t* g = gamma.const_data_ptr<scalar_t>() + s * width;
      scalar_t* out = factor.data_ptr<scalar_t>() + s * size * width;
      double total = constant;
      for (int64_t i = 0; i < size; ++i) {
        scalar_t squares = 0;
        for (int64_t j = 0; j < width; ++j) {
          const int64_t at = i * width + j;
          const bool below = i > j;
          out[at] = below ? mu[at] + sigma[at] * epsilon[at] : scalar_t(0);
          squares += below ? epsilon[at] * epsilon[at] : scalar_t(0);
        }
        total -= 0.5 * squares;
      }
      for (int64_t j = 0; j < width; ++j) {
        const double power = 2.0 * (alpha[j] - 1.0) - static_cast<double>(size - 1 - j) - tilt;
        const scalar_t diagonal = std::sqrt(g[j] / beta[j]);
        out[j * width + j] = diagonal;
        total += power * std::log(diagonal) - g[j];  // beta A_jj^2 is g_j
      }
      log_density.data_ptr<scalar_t>()[s] = static_cast<scalar_t>(total);
    });
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
  AT_DISPATCH_FLOATING_TYPES(noise.scalar_type(), "scored_factor_backward", [&] {
    const scalar_t *beta = rate.const_data_ptr<scalar_t>(),
                   *alpha = concentration.const_data_ptr<scalar_t>();
    const scalar_t *gd = slope.const_data_ptr<scalar_t>(), *q = weight.const_data_ptr<scalar_t>();
    const scalar_t* incoming = grad.const_data_ptr<scalar_t>();
    for (int64_t s = 0; s < batch; ++s) {
      const scalar_t* g = gamma.const_data_ptr<scalar_t>() + s * width;
      for (int64_t j = 0; j < width; ++j) {
        const scalar_t power = scalar_t(2) * (alpha[j] - scalar_t(1)) -
                               static_cast<scalar_t>(size - 1 - j) - static_cast<scalar_t>(tilt);
        const scalar_t diagonal = std::sqrt(g[j] / beta[j]);
        // A_jj / 2 times its gradient, which is that of log g_j and minus that of log beta_j
        const scalar_t half =
            scalar_t(0.5) * incoming[(s * size + j) * width + j] * diagonal +
            gd[s] * (scalar_t(0.5) * power - g[j]);
        grad_gamma.data_ptr<scalar_t>()[s * width + j] = half / g[j];
        grad_rate.data_ptr<scalar_t>()[j] -= half / beta[j];
      }
    }
    at::parallel_for(0, size, 16, [&](int64_t begin, int64_t end) {
      const scalar_t* sigma = scale.const_data_ptr<scalar_t>();
      scalar_t *loc = grad_loc.data_ptr<scalar_t>(), *out = grad_scale.data_ptr<scalar_t>();
      for (int64_t s = 0; s < batch; ++s) {
        const scalar_t* epsilon = noise.const_data_ptr<scalar_t>() + s * size * width;
        const scalar_t* g = incoming + s * size * width;
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t at = i * width; at < i * width + std::min(i, width); ++at) {
            const scalar_t along = g[at] - q[s] * epsilon[at] / sigma[at];
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
