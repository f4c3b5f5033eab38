// A draw from the posterior that observed features, scored by it and by the Wishart prior of the same
// scale; derivation in numerics/anchored.py.
//
// The upper factor N = U U^T is the lower one C of N with rows and columns in reverse order. What is
// called reversed below is in that order, in which U^-1 is H_N = C^-1.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "factors.h"
#include "rows.h"
#include "support.h"
#include "wishart.h"

namespace {

// Rows in reverse order.
template <typename T>
void reverse_rows(const T* matrix, T* __restrict out, int64_t size, int64_t width) {
  for (int64_t i = 0; i < size; ++i)
    std::copy_n(matrix + i * width, width, out + (size - 1 - i) * width);
}

// Lower blocks of A B, or of A B^T with lower-triangular B; what is above them is left undefined.
template <typename T>
void lower_part(bool transpose_b, const T* a, const T* b, T alpha, T beta, T* out, int64_t size) {
  constexpr int64_t block = 32;
  for (int64_t j = 0; j < size; j += block) {
    const int64_t end = size - j < 2 * block ? size : j + block;
    gemm<T>(false, transpose_b, size - j, end - j, transpose_b ? end : size, alpha, a + j * size,
            size, b + (transpose_b ? j * size : j), size, beta, out + j * size + j, size);
    if (end == size) break;
  }
}

// U^-1 x, or U^-T x.
template <typename T>
void solve_reversed(bool transpose, const T* inverse, const T* x, T* out, int64_t size,
                    int64_t width) {
  Scratch<T> scratch(2 * size * width);
  T *backwards = scratch.data(), *solved = backwards + size * width;
  reverse_rows(x, backwards, size, width);
  gemm<T>(transpose, false, size, width, size, 1, inverse, size, backwards, width, 0, solved, width);
  reverse_rows(solved, out, size, width);
}

// What is returned for rows and the gradient is that of wishart_draw_forward, and H_N, N - I,
// L^T Lambda v, W = U^-1 r, and Z = mask * (W + epsilon).
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor,
           Tensor, Tensor>
anchored_draw_forward(const Tensor& scale, const Tensor& gamma, const Tensor& concentration,
                      const Tensor& rate, const Tensor& pull, const Tensor& precision,
                      const Tensor& epsilon, double degrees) {
  check_scale(scale, epsilon);
  const Diagonal diagonal = check_diagonal(gamma, concentration, rate, epsilon, degrees);
  const int64_t size = epsilon.size(1), rank = epsilon.size(2), all = size * size;
  check_shape(pull, {size, rank}, "the precision times the targets");
  check_shape(precision, {size, size}, "the precision");
  const Scale parts(scale);
  Tensor inner = at::empty_like(scale), gain = at::empty_like(scale),
         pulled = like(scale, {scale.size(0), size, rank});
  for_each_sample(scale, [&]<typename T>(T, int64_t s) {
    parts.factorise_one<T>(scale, s, [&](const double* L) {
      Scratch<double> scratch(4 * all);
      double *wide = scratch.data(), *N = wide + all, *back = N + all, *lower = back + all;
      std::copy_n(from<T>(precision), all, wide);
      trapezoidal_product(true, L, wide, back, size, size, size);
      lower_part<double>(false, back, L, 1, 0, N, size);
      mirror(N, size);
      std::copy_n(N, all, into<T>(gain, s));
      for (int64_t i = 0; i < all; ++i) back[i] = N[all - 1 - i];
      for (int64_t i = 0; i < size; ++i) back[i * size + i] += 1.0;
      int32_t& pivot = parts.failed.data_ptr<int32_t>()[s];
      if ((pivot = factorise(back, lower, size)) != 0) return;
      invert_lower(lower, wide, size);
      std::copy_n(wide, all, into<T>(inner, s));
      gemm<T>(true, false, size, rank, size, 1, from<T>(parts.lower, s), size, from<T>(pull), rank,
              0, into<T>(pulled, s), rank);
    });
  });
  Tensor root = at::empty_like(epsilon), factor = at::empty_like(epsilon),
         solved = at::empty_like(epsilon), W = at::empty_like(epsilon), Z = at::empty_like(epsilon),
         log_ratio = like(epsilon, {epsilon.size(0)});
  for_each_sample(epsilon, [&]<typename T>(T, int64_t s) {
    const int64_t own = scale_of(s, scale);
    const T *e = from<T>(epsilon, s), *H = from<T>(inner, own), *excess = from<T>(gain, own);
    T *A = into<T>(factor, s), *w = into<T>(W, s), *z = into<T>(Z, s);
    std::fill_n(A, size * rank, T(0));
    double total = diagonal.constant<T>() + diagonal.fill(s, A);
    std::copy_n(from<T>(pulled, own), size * rank, z);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < rank; ++j) z[i * rank + j] -= excess[i * size + j] * A[j * rank + j];
    solve_reversed(false, H, z, w, size, rank);
    for (int64_t i = 0; i < size; ++i) {
      T squares = 0;
      const int64_t below = std::min(i, rank), r = size - 1 - i;
      for (int64_t j = 0; j < rank; ++j) {
        const int64_t at = i * rank + j;
        z[at] = j < below ? w[at] + e[at] : T(0);
        squares += j < below ? e[at] * e[at] : T(0);
      }
      total += 0.5 * squares + below * (std::log(double(H[r * size + r])) + kHalfLogTwoPi);
    }
    Scratch<T> scratch(size * rank);
    solve_reversed(true, H, z, scratch.data(), size, rank);
    for (int64_t i = 0; i < size; ++i)
      std::copy_n(scratch.data() + i * rank, std::min(i, rank), A + i * rank);
    *into<T>(log_ratio, s) = static_cast<T>(total - 0.5 * dot(A, A, size * rank));
    root_of_factor(from<T>(parts.lower, own), from<T>(parts.inverse, own), A, into<T>(root, s),
                   into<T>(solved, s), size, rank);
  });
  return {root,  log_ratio, parts.inverse, factor, parts.form, solved, parts.lower, parts.failed,
          inner, gain,      pulled,        W,      Z};
}

// Gradients of the scale, gamma, alpha, beta, Lambda v and Lambda.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> anchored_draw_backward(
    const Tensor& gamma, const Tensor& concentration, const Tensor& rate, const Tensor& epsilon,
    double degrees, bool sticking, const Tensor& inverse, const Tensor& lower,
    const Tensor& factor, const Tensor& inner, const Tensor& gain, const Tensor& pulled,
    const Tensor& W, const Tensor& Z, const Tensor& grad_root, const Tensor& grad_ratio,
    const std::optional<Tensor>& grad_inverse, const std::optional<Tensor>& grad_weights) {
  check_root_gradients(inverse, lower, factor, epsilon, grad_root, grad_ratio, grad_inverse,
                       grad_weights);
  const Diagonal diagonal = check_diagonal(gamma, concentration, rate, epsilon, degrees);
  const int64_t samples = epsilon.size(0), size = epsilon.size(1), rank = epsilon.size(2);
  const int64_t all = size * size, narrow = size * rank;
  for (const Tensor* t : {&inner, &gain}) check_shape(*t, inverse.sizes(), "an inner matrix");
  check_shape(pulled, {inverse.size(0), size, rank}, "the pulled targets");
  for (const Tensor* t : {&W, &Z}) check_shape(*t, epsilon.sizes(), "a whitened draw");
  auto [along, middles] = factor_gradient(lower, factor, grad_root, grad_ratio, grad_weights);
  Tensor to_inner = like(inverse, {samples, size, size}), to_pull = at::empty_like(epsilon);
  for_each_sample(epsilon, [&]<typename T>(T, int64_t s) {
    const int64_t own = scale_of(s, inverse);
    const T *H = from<T>(inner, own), *excess = from<T>(gain, own), *A = from<T>(factor, s);
    const T d = *from<T>(grad_ratio, s);
    T *gA = into<T>(along, s), *M = into<T>(middles, s), *B = into<T>(to_inner, s);
    Scratch<T> scratch(2 * all + 6 * narrow);
    T *S = scratch.data(), *work = S + all, *gZ = work + all, *gW = gZ + narrow;
    T *gr = gW + narrow, *first = gr + narrow, *second = first + narrow, *masked = second + narrow;
    const auto mask = [&](const T* given, T* out) {
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = 0; j < rank; ++j) out[i * rank + j] = j < i ? given[i * rank + j] : T(0);
    };
    mask(gA, masked);
    solve_reversed(false, H, masked, gZ, size, rank);
    mask(gZ, gW);
    solve_reversed(true, H, gW, gr, size, rank);
    // U^T gU = -(Z gZ^T + gW W^T) - d diag(how often row i is below the diagonal), reversed.
    const auto subtract = [&](const T* left, const T* right, T beta) {
      reverse_rows(left, first, size, rank);
      reverse_rows(right, second, size, rank);
      gemm<T>(false, true, size, size, rank, -1, first, rank, second, rank, beta, S, size);
    };
    subtract(from<T>(Z, s), gZ, 0);
    subtract(gW, from<T>(W, s), 1);
    for (int64_t i = 0; i < size; ++i)
      S[i * size + i] -= d * static_cast<T>(std::min(size - 1 - i, rank));
    halve_and_mirror(S, size);
    sandwich(H, S, work, B, size);  // the gradient of N through U, reversed
    std::reverse(B, B + all);
    for (int64_t i = 0; i < all; ++i) B[i] *= T(2);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < rank; ++j) {  // and through r
        const T direct = gr[i * rank + j] * A[j * rank + j];
        B[i * size + j] -= direct;
        B[j * size + i] -= direct;
        gA[j * rank + j] -= gr[i * rank + j] * excess[i * size + j];
      }
    gemm<T>(false, true, size, size, rank, 1, from<T>(pulled, own), rank, gr, rank, 1, M, size);
    gemm<T>(false, false, size, rank, size, 1, from<T>(lower, own), size, gr, rank, 0,
            into<T>(to_pull, s), rank);
  });
  auto [to_gamma, to_alpha, to_beta] = diagonal.gradients(along, factor, grad_ratio, sticking);
  const bool shared = inverse.size(0) < samples;
  const Tensor sums = shared ? sum_samples(to_inner).unsqueeze(0) : to_inner;
  Tensor to_precision = at::empty_like(inverse);
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(all);
    const T *B = from<T>(sums, s), *L = from<T>(lower, s);
    T* out = into<T>(to_precision, s);
    lower_part<T>(false, from<T>(gain, s), B, 1, 1, into<T>(middles, s), size);
    trapezoidal_product(false, L, B, scratch.data(), size, size, size);
    lower_part<T>(true, scratch.data(), L, T(0.5), 0, out, size);
    mirror(out, size);
  });
  return {scale_gradient(inverse, middles, grad_inverse),
          to_gamma,
          to_alpha,
          to_beta,
          sum_samples(to_pull),
          sum_samples(to_precision)};
}

}  // namespace
