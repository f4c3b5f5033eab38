// A draw from the paper's posterior over Gram matrices, scored by it and by the Wishart prior of the
// same scale; derivation in numerics/wishart.py.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "factors.h"
#include "rows.h"
#include "support.h"

namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178, kLogTwo = 0.69314718055994530942,
                 kLogPi = 1.14472988584940017414;

// One scale S = L L^T for all samples or one for each: L, H = L^-1, the form of rows (H, or S^-1 where
// kSquared), and per scale the pivot that failed, where what belongs to it is undefined.
struct Scale {
  Tensor lower, inverse, form, failed;

  explicit Scale(const Tensor& scale)
      : lower(like(scale)),
        inverse(like(scale)),
        form(like(scale)),
        failed(at::zeros({scale.size(0)}, scale.options().dtype(at::kInt))) {}

  // Factors are computed in double precision whatever the dtype, in which they are handed over.
  // In single precision their rounding is as large as the jitter.
  template <typename T>
  int32_t& factorise_one(const Tensor& scale, int64_t s) const {
    const int64_t size = scale.size(1), all = size * size;
    Scratch<double> scratch(3 * all);
    double *exact = scratch.data(), *own = exact + all, *back = own + all;
    T *L = into<T>(lower, s), *H = into<T>(inverse, s), *G = into<T>(form, s);
    int32_t& pivot = failed.data_ptr<int32_t>()[s];
    std::copy_n(from<T>(scale, s), all, exact);
    if ((pivot = factorise(exact, own, size)) != 0) return pivot;
    invert_lower(own, back, size);
    std::copy_n(own, all, L);
    std::copy_n(back, all, H);
    if (kSquared<T>)
      inner_product(H, G, size);
    else
      std::copy_n(H, all, G);
    return pivot;
  }
};

// Which scale a sample has.
int64_t scale_of(int64_t sample, const Tensor& scale) { return scale.size(0) == 1 ? 0 : sample; }

// Of M = L^T gL for each sample, the gradient of its scale: L^-T sym(Phi(M - gH H^T)) L^-1.
Tensor scale_gradient(const Tensor& inverse, const Tensor& middles,
                      const std::optional<Tensor>& grad_inverse) {
  const int64_t size = inverse.size(1);
  const bool shared = inverse.size(0) < middles.size(0);
  const Tensor sums = shared ? sum_samples(middles).unsqueeze(0) : middles;
  Tensor out = like(inverse);
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(size * size);
    T* M = into<T>(sums, s);
    const T* H = from<T>(inverse, s);
    if (grad_inverse) lower_products<T>(false, from<T>(*grad_inverse, s), H, -1, 1, M, size);
    halve_and_mirror(M, size);
    sandwich(H, M, scratch.data(), into<T>(out, s), size);
  });
  return out;
}

// The gamma variables' part of log p - log q, and of a Bartlett factor A its diagonal.
struct Diagonal {
  const Tensor &gamma, &concentration, &rate;
  const int64_t size, rank;
  const double degrees;

  // Exponent p_j of A_jj in q / p: density of A_jj^2, Jacobian and prior together.
  double power(double alpha, int64_t j) const { return 2.0 * alpha - degrees + double(j); }

  // What no sample changes, and the prior's constant: nu P log(2) / 2 + nu (P - m) log(pi) / 2
  // + log Gamma_m(nu / 2).
  template <typename T>
  double constant() const {
    const T *alpha = from<T>(concentration), *beta = from<T>(rate);
    double total = -0.5 * degrees * (size * kLogTwo + (size - rank) * kLogPi) -
                   0.25 * rank * (rank - 1) * kLogPi;
    for (int64_t j = 0; j < rank; ++j)
      total += std::lgamma(double(alpha[j])) - alpha[j] * std::log(double(beta[j])) -
               std::lgamma(0.5 * (degrees - j));
    return total;
  }

  template <typename T>
  double fill(int64_t s, T* A) const {
    const T *g = from<T>(gamma, s), *alpha = from<T>(concentration), *beta = from<T>(rate);
    double total = 0;
    for (int64_t j = 0; j < rank; ++j) {
      const T own = A[j * rank + j] = std::sqrt(g[j] / beta[j]);
      total += g[j] - power(alpha[j], j) * std::log(double(own));
    }
    return total;
  }

  // Gradients of gamma, alpha and beta, where `along` are those of A and `ratio` that of the above.
  // Stuck to the landing, the density's own dependence on alpha and beta is left out.
  std::tuple<Tensor, Tensor, Tensor> gradients(const Tensor& along, const Tensor& factor,
                                               const Tensor& ratio, bool sticking) const {
    Tensor to_gamma = like(gamma), to_alpha = at::zeros_like(rate),
           to_beta = at::zeros_like(rate);
    with_dtype(gamma, [&]<typename T>(T) {
      const T *alpha = from<T>(concentration), *beta = from<T>(rate), *d = from<T>(ratio);
      T* beta_out = into<T>(to_beta);
      for (int64_t s = 0; s < gamma.size(0); ++s) {
        const T *g = from<T>(gamma, s), *gA = from<T>(along, s), *A = from<T>(factor, s);
        for (int64_t j = 0; j < rank; ++j) {
          const int64_t at = j * rank + j;
          // A_jj / 2 times its gradient, which is that of log g_j and minus that of log beta_j
          const T half =
              T(0.5) * gA[at] * A[at] + d[s] * (g[j] - T(0.5 * power(alpha[j], j)));
          into<T>(to_gamma, s)[j] = half / g[j];
          beta_out[j] -= (half - (sticking ? T(0) : d[s] * (g[j] - alpha[j]))) / beta[j];
        }
      }
    });
    if (!sticking)
      to_alpha = (ratio.unsqueeze(1) * (concentration.digamma() - gamma.log())).sum(0);
    return {to_gamma, to_alpha, to_beta};
  }
};

void check_scale(const Tensor& scale, const Tensor& epsilon) {
  last_size(epsilon, 3, "the noise");
  check_shape(epsilon, epsilon.sizes(), "the noise");
  check_square(scale, "the scale");
  const int64_t batch = scale.size(0), samples = epsilon.size(0), size = epsilon.size(1);
  check_shape(scale, {batch, size, size}, "the scale");
  TORCH_CHECK(batch == 1 || batch == samples, "deepwishart: ", batch, " scales for ", samples,
              " samples");
}

Diagonal check_diagonal(const Tensor& gamma, const Tensor& concentration, const Tensor& rate,
                        const Tensor& epsilon, double degrees) {
  const int64_t samples = epsilon.size(0), size = epsilon.size(1), rank = epsilon.size(2);
  TORCH_CHECK(rank <= size, "deepwishart: a Bartlett factor of ", size, " rows has no ", rank,
              " columns");
  check_shape(gamma, {samples, rank}, "gamma");
  for (const Tensor* t : {&concentration, &rate}) check_shape(*t, {rank}, "a gamma parameter");
  return {gamma, concentration, rate, size, rank, degrees};
}

// The root F, log p - log q, H, A = H F, and for rows and the gradient S^-1 (or H), S^-1 F, L, and
// which scales failed.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> wishart_draw_forward(
    const Tensor& scale, const Tensor& gamma, const Tensor& concentration, const Tensor& rate,
    const Tensor& loc, const Tensor& deviation, const Tensor& epsilon, double degrees) {
  check_scale(scale, epsilon);
  const Diagonal diagonal = check_diagonal(gamma, concentration, rate, epsilon, degrees);
  const int64_t size = epsilon.size(1), rank = epsilon.size(2);
  for (const Tensor* t : {&loc, &deviation}) check_shape(*t, {size, rank}, "a normal parameter");
  const Scale parts(scale);
  for_each_sample(scale, [&]<typename T>(T, int64_t s) { parts.factorise_one<T>(scale, s); });
  Tensor root = like(epsilon), factor = like(epsilon),
         solved = like(epsilon), log_ratio = like(epsilon, {epsilon.size(0)});
  double constant = 0;  // what no sample changes
  with_dtype(epsilon, [&]<typename T>(T) {
    const T* sigma = from<T>(deviation);
    constant = diagonal.constant<T>();
    for (int64_t i = 0; i < size; ++i)
      for (int64_t at = i * rank; at < i * rank + std::min(i, rank); ++at)
        constant += std::log(sigma[at]) + kHalfLogTwoPi;
  });
  for_each_sample(epsilon, [&]<typename T>(T, int64_t s) {
    const T *mu = from<T>(loc), *sigma = from<T>(deviation), *e = from<T>(epsilon, s);
    T* A = into<T>(factor, s);
    double total = constant;
    for (int64_t i = 0; i < size; ++i) {
      T squares = 0;
      for (int64_t j = 0; j < rank; ++j) {
        const int64_t at = i * rank + j;
        A[at] = i > j ? mu[at] + sigma[at] * e[at] : T(0);
        squares += i > j ? e[at] * e[at] : T(0);
      }
      total += 0.5 * squares;
    }
    total += diagonal.fill(s, A) - 0.5 * dot(A, A, size * rank);
    *into<T>(log_ratio, s) = static_cast<T>(total);
    const int64_t own = scale_of(s, scale);
    gemm<T>(false, false, size, rank, size, 1, from<T>(parts.lower, own), size, A, rank, 0,
            into<T>(root, s), rank);
    gemm<T>(true, false, size, rank, size, 1, from<T>(parts.inverse, own), size, A, rank, 0,
            into<T>(solved, s), rank);
  });
  return {root,       log_ratio, parts.inverse, factor,
          parts.form, solved,    parts.lower,   parts.failed};
}

void check_root_gradients(const Tensor& inverse, const Tensor& lower, const Tensor& factor,
                          const Tensor& epsilon, const Tensor& grad_root, const Tensor& grad_ratio,
                          const std::optional<Tensor>& grad_inverse,
                          const std::optional<Tensor>& grad_weights) {
  check_scale(inverse, epsilon);
  check_shape(lower, inverse.sizes(), "the factor");
  for (const Tensor* t : {&factor, &grad_root}) check_shape(*t, epsilon.sizes(), "a root");
  check_shape(grad_ratio, {epsilon.size(0)}, "the ratio's gradient");
  check_shape(grad_inverse, inverse.sizes(), "the inverse factor's gradient");
  check_shape(grad_weights, epsilon.sizes(), "the weights' gradient");
}

// Gradients of the scale, gamma, alpha, beta, mu and sigma, by way of M = (L^T gF) A^T for each
// sample and the gradient of A, L^T gF + gw - d A.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> wishart_draw_backward(
    const Tensor& gamma, const Tensor& concentration, const Tensor& rate, const Tensor& deviation,
    const Tensor& epsilon, double degrees, bool sticking, const Tensor& inverse,
    const Tensor& lower, const Tensor& factor, const Tensor& grad_root, const Tensor& grad_ratio,
    const std::optional<Tensor>& grad_inverse, const std::optional<Tensor>& grad_weights) {
  check_root_gradients(inverse, lower, factor, epsilon, grad_root, grad_ratio, grad_inverse,
                       grad_weights);
  const Diagonal diagonal = check_diagonal(gamma, concentration, rate, epsilon, degrees);
  const int64_t samples = epsilon.size(0), size = epsilon.size(1), rank = epsilon.size(2);
  check_shape(deviation, {size, rank}, "a normal parameter");
  Tensor along = like(factor), middles = like(factor, {samples, size, size});
  for_each_sample(factor, [&]<typename T>(T, int64_t s) {
    const T *A = from<T>(factor, s), d = *from<T>(grad_ratio, s);
    const T* gw = grad_weights ? from<T>(*grad_weights, s) : nullptr;
    T* gA = into<T>(along, s);
    gemm<T>(true, false, size, rank, size, 1, from<T>(lower, scale_of(s, lower)), size,
            from<T>(grad_root, s), rank, 0, gA, rank);
    gemm<T>(false, true, size, size, rank, 1, gA, rank, A, rank, 0, into<T>(middles, s), size);
    for (int64_t i = 0; i < size * rank; ++i) gA[i] += (gw ? gw[i] : T(0)) - d * A[i];
  });
  auto [to_gamma, to_alpha, to_beta] = diagonal.gradients(along, factor, grad_ratio, sticking);
  Tensor to_loc = at::zeros_like(deviation), to_deviation = at::zeros_like(deviation);
  with_dtype(epsilon, [&]<typename T>(T) {
    const T *sigma = from<T>(deviation), *d = from<T>(grad_ratio);
    T *loc = into<T>(to_loc), *out = into<T>(to_deviation);
    for (int64_t s = 0; s < samples; ++s) {
      const T *e = from<T>(epsilon, s), *gA = from<T>(along, s);
      for (int64_t i = 0; i < size; ++i)
        for (int64_t at = i * rank; at < i * rank + std::min(i, rank); ++at) {
          const T own = gA[at] + (sticking ? d[s] * e[at] / sigma[at] : T(0));
          loc[at] += own;
          out[at] += own * e[at] + (sticking ? T(0) : d[s] / sigma[at]);
        }
    }
  });
  return {scale_gradient(inverse, middles, grad_inverse), to_gamma, to_alpha, to_beta, to_loc,
          to_deviation};
}

}  // namespace
