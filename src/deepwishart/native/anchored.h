// A draw from the posterior that observed features, scored by it and by the Wishart prior of the same
// scale; derivation in numerics/anchored.py. In double precision only.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "factors.h"
#include "support.h"
#include "wishart.h"

namespace {

// G with (C + Lambda)^-1 = G G^T, by the factor of C + Lambda with rows and columns in reverse order.
// Returns 0 or the pivot that failed.
int32_t covariance_factor(const double* C, const double* precision, double* G, int64_t size) {
  const int64_t all = size * size;
  Scratch<double> scratch(2 * all);
  double *inner = scratch.data(), *lower = inner + all;
  for (int64_t i = 0; i < all; ++i) inner[i] = C[all - 1 - i] + precision[all - 1 - i];
  if (const int32_t pivot = factorise(inner, lower, size)) return pivot;
  invert_lower(lower, inner, size);
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j) G[i * size + j] = inner[all - 1 - (j * size + i)];
  return 0;
}

// What is returned for rows and the gradient is that of wishart_draw_forward, and G,
// W = G^T Lambda q, Z = mask * (W + epsilon) and q = v - L D.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
           Tensor>
anchored_draw_forward(const Tensor& scale, const Tensor& gamma, const Tensor& concentration,
                      const Tensor& rate, const Tensor& targets, const Tensor& precision,
                      const Tensor& epsilon, double degrees) {
  check_scale(scale, epsilon);
  const Diagonal diagonal = check_diagonal(gamma, concentration, rate, epsilon, degrees);
  const int64_t size = epsilon.size(1), rank = epsilon.size(2), narrow = size * rank;
  check_shape(targets, {size, rank}, "the targets");
  check_shape(precision, {size, size}, "the precision");
  const double *v = from<double>(targets), *Lambda = from<double>(precision);
  const Scale parts(scale);
  Tensor covariance = like(scale);
  for_each_sample(scale, [&](double, int64_t s) {
    int32_t& pivot = parts.factorise_one<double>(scale, s);
    if (pivot == 0)
      pivot = covariance_factor(from<double>(parts.form, s), Lambda, into<double>(covariance, s), size);
  });
  Tensor root = like(epsilon), factor = at::zeros_like(epsilon),
         solved = like(epsilon), W = like(epsilon), Z = like(epsilon),
         missing = like(epsilon), log_ratio = like(epsilon, {epsilon.size(0)});
  const double constant = diagonal.constant<double>();
  for_each_sample(epsilon, [&](double, int64_t s) {
    const int64_t own = scale_of(s, scale);
    const double *e = from<double>(epsilon, s), *G = from<double>(covariance, own);
    const double *L = from<double>(parts.lower, own), *H = from<double>(parts.inverse, own);
    double *A = into<double>(factor, s), *F = into<double>(root, s), *w = into<double>(W, s);
    double *z = into<double>(Z, s), *q = into<double>(missing, s);
    Scratch<double> scratch(narrow);
    double *pulled = scratch.data(), total = constant + diagonal.fill(s, A);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < rank; ++j)
        q[i * rank + j] = v[i * rank + j] - L[i * size + j] * A[j * rank + j];
    gemm<double>(false, false, size, rank, size, 1, Lambda, size, q, rank, 0, pulled, rank);
    gemm<double>(true, false, size, rank, size, 1, G, size, pulled, rank, 0, w, rank);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t below = std::min(i, rank), corner = i * size + i;
      for (int64_t at = i * rank; at < i * rank + rank; ++at) {
        const bool drawn = at < i * rank + below;
        z[at] = drawn ? w[at] + e[at] : 0.0;
        total += drawn ? 0.5 * e[at] * e[at] : 0.0;
      }
      total += below * (std::log(G[corner] / L[corner]) + kHalfLogTwoPi);
    }
    gemm<double>(false, false, size, rank, size, 1, G, size, z, rank, 0, F, rank);
    gemm<double>(false, false, size, rank, size, 1, H, size, F, rank, 0, pulled, rank);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < rank; ++j) {
        if (j < i) A[i * rank + j] = pulled[i * rank + j];
        F[i * rank + j] += L[i * size + j] * A[j * rank + j];
      }
    *into<double>(log_ratio, s) = total - 0.5 * dot(A, A, narrow);
    gemm<double>(true, false, size, rank, size, 1, H, size, A, rank, 0, into<double>(solved, s),
                 rank);
  });
  return {root,   log_ratio,    parts.inverse, factor, parts.form, solved, parts.lower,
          parts.failed, covariance, W,             Z,      missing};
}

// Gradients of the scale, gamma, alpha, beta, v and Lambda.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> anchored_draw_backward(
    const Tensor& gamma, const Tensor& concentration, const Tensor& rate, const Tensor& precision,
    const Tensor& epsilon, double degrees, bool sticking, const Tensor& inverse,
    const Tensor& lower, const Tensor& factor, const Tensor& solved, const Tensor& covariance,
    const Tensor& W, const Tensor& Z, const Tensor& missing, const Tensor& grad_root, const Tensor& grad_ratio,
    const std::optional<Tensor>& grad_inverse, const std::optional<Tensor>& grad_weights) {
  check_root_gradients(inverse, lower, factor, epsilon, grad_root, grad_ratio, grad_inverse,
                       grad_weights);
  const Diagonal diagonal = check_diagonal(gamma, concentration, rate, epsilon, degrees);
  const int64_t samples = epsilon.size(0), size = epsilon.size(1), rank = epsilon.size(2);
  const int64_t all = size * size, narrow = size * rank;
  check_shape(precision, {size, size}, "the precision");
  check_shape(covariance, inverse.sizes(), "the factor of the covariance");
  for (const Tensor* t : {&solved, &W, &Z, &missing}) check_shape(*t, epsilon.sizes(), "a part of the draw");
  Tensor along = like(epsilon), to_pull = like(epsilon),
         to_missing = like(epsilon), middles = like(inverse, {samples, size, size}),
         inner = like(inverse, {samples, size, size});
  for_each_sample(epsilon, [&](double, int64_t s) {
    const int64_t own = scale_of(s, inverse);
    const double *A = from<double>(factor, s), *G = from<double>(covariance, own);
    const double *w = from<double>(W, s), *z = from<double>(Z, s);
    const double d = *from<double>(grad_ratio, s);
    const double* gw = grad_weights ? from<double>(*grad_weights, s) : nullptr;
    double *l = into<double>(along, s), *gu = into<double>(to_pull, s);
    double *gq = into<double>(to_missing, s), *M = into<double>(middles, s);
    const int64_t wide = 2 * rank;
    Scratch<double> scratch(7 * narrow);
    double *gA = scratch.data(), *gF = gA + narrow, *gW = gF + narrow;
    double *first = gW + narrow, *second = first + 2 * narrow;  // [gZ, W] and [Z, gW]
    double* S = into<double>(inner, s);
    const double *direct = from<double>(grad_root, s), *HA = from<double>(solved, s);
    for (int64_t i = 0; i < narrow; ++i) {
      gA[i] = (gw ? gw[i] : 0.0) - d * A[i];
      gF[i] = direct[i] - d * HA[i];
    }
    if (gw)
      gemm<double>(true, false, size, rank, size, 1, from<double>(inverse, own), size, gw, rank, 1,
                   gF, rank);
    gemm<double>(true, false, size, rank, size, 1, G, size, gF, rank, 0, first, wide);
    for (int64_t i = 0; i < size; ++i) {
      double *left = first + i * wide, *right = second + i * wide;
      for (int64_t j = 0; j < rank; ++j) {
        const int64_t at = i * rank + j;
        gW[at] = right[rank + j] = j < i ? left[j] : 0.0;
        left[rank + j] = w[at];
        right[j] = z[at];
      }
    }
    gemm<double>(false, false, size, rank, size, 1, G, size, gW, rank, 0, gu, rank);
    gemm<double>(false, false, size, rank, size, 1, from<double>(precision), size, gu, rank, 0, gq,
                 rank);
    for (int64_t i = 0; i < narrow; ++i) gF[i] -= gq[i];
    gemm<double>(true, false, size, rank, size, 1, from<double>(lower, own), size, gF, rank, 0, l,
                 rank);
    lower_of_product<double>(-1, gA, A, M, size, rank);
    lower_of_product<double>(1, first, second, S, size, wide);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < rank; ++j) M[i * size + j] += l[i * rank + j] * A[j * rank + j];
      M[i * size + i] -= d * std::min(i, rank);
      S[i * size + i] += d * std::min(i, rank);
    }
  });
  auto [to_gamma, to_alpha, to_beta] = diagonal.gradients(along, factor, grad_ratio, sticking);
  const bool shared = inverse.size(0) < samples;  // then both are linear in what is summed first
  const auto by_scale = [&](const Tensor& t) { return shared ? sum_samples(t).unsqueeze(0) : t; };
  const Tensor inners = by_scale(inner), sums = by_scale(middles), to_inner = like(inverse);
  for_each_sample(inverse, [&](double, int64_t s) {
    Scratch<double> scratch(2 * all);
    double *work = scratch.data(), *out = work + all, *M = into<double>(sums, s);
    double *S = into<double>(inners, s), *K = into<double>(to_inner, s);
    halve_and_mirror(S, size);
    congruence(from<double>(covariance, s), S, work, K, size);
    congruence(from<double>(inverse, s), K, work, out, size);
    for (int64_t i = 0; i < all; ++i) M[i] += 2.0 * out[i];
  });
  const auto side_by_side = [&](const Tensor& t) { return t.transpose(0, 1).reshape({size, -1}); };
  const Tensor outer = at::mm(side_by_side(to_pull), side_by_side(missing).t());
  return {scale_gradient(inverse, sums, grad_inverse),
          to_gamma,
          to_alpha,
          to_beta,
          sum_samples(to_missing).clone(),
          0.5 * (outer + outer.t()) - sum_samples(to_inner)};
}

}  // namespace
