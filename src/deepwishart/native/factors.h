// Cholesky factors, inverses of triangular matrices, and their gradients.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "support.h"

namespace {

// About half of a size that is split, where BLAS has whole registers of columns.
int64_t half_of(int64_t size) { return size / 2 / 8 * 8; }

// Below this size plain loops over rows beat LAPACK, whose calls cost more than their work.
constexpr int64_t kSmall = 192;

// row -= factor * other, in a range of columns.
template <typename T>
void subtract_row(T* __restrict row, T factor, const T* __restrict other, int64_t begin,
                  int64_t end) {
  for (int64_t j = begin; j < end; ++j) row[j] -= factor * other[j];
}

// Two rows at once, less combinations of four consecutive others: several times the arithmetic per
// load of the above. Factors of the two rows start at a and b, step apart.
constexpr int64_t kTogether = 4;

template <typename T>
void subtract_rows(T* __restrict first, T* __restrict second, const T* a, const T* b, int64_t step,
                   const T* __restrict others, int64_t stride, int64_t begin, int64_t end) {
  const T a0 = a[0], a1 = a[step], a2 = a[2 * step], a3 = a[3 * step];
  const T b0 = b[0], b1 = b[step], b2 = b[2 * step], b3 = b[3 * step];
  const T *p0 = others, *p1 = p0 + stride, *p2 = p1 + stride, *p3 = p2 + stride;
#pragma omp simd
  for (int64_t j = begin; j < end; ++j) {
    first[j] -= a0 * p0[j] + a1 * p1[j] + a2 * p2[j] + a3 * p3[j];
    second[j] -= b0 * p0[j] + b1 * p1[j] + b2 * p2[j] + b3 * p3[j];
  }
}

// U^T U factorisation of a small matrix by rows, then L = U^T. Returns 0, or the pivot that was not
// positive. What is below the diagonal of U is never read.
template <typename T>
int32_t small_cholesky(const T* matrix, T* upper, T* __restrict lower, int64_t size) {
  std::copy(matrix, matrix + size * size, upper);
  for (int64_t k = 0; k < size; k += kTogether) {
    const int64_t after = std::min(k + kTogether, size);
    const T* pivots = upper + k * size;
    const auto eliminate = [&](int64_t i, int64_t end) {
      for (int64_t p = k; p < end; ++p)
        subtract_row(upper + i * size, upper[p * size + i], upper + p * size, i, size);
    };
    for (int64_t i = k; i < after; ++i) {
      eliminate(i, i);
      T* row = upper + i * size;
      if (!(row[i] > T(0)) || !std::isfinite(row[i])) return static_cast<int32_t>(i + 1);
      const T scale = T(1) / std::sqrt(row[i]);
      for (int64_t j = i; j < size; ++j) row[j] *= scale;
    }
    int64_t i = after;
    for (; i + 1 < size; i += 2)
      subtract_rows(upper + i * size, upper + (i + 1) * size, pivots + i, pivots + i + 1, size,
                    pivots, size, i, size);
    if (i < size) eliminate(i, after);
  }
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j <= i; ++j) lower[i * size + j] = upper[j * size + i];
    std::fill(lower + i * size + i + 1, lower + (i + 1) * size, T(0));
  }
  return 0;
}

// Row i of the inverse is (e_i - sum_{k<i} L_ik row_k) / L_ii.
template <typename T>
void small_triangular_inverse(const T* lower, T* inverse, int64_t size) {
  std::fill(inverse, inverse + size * size, T(0));
  const auto finish = [&](int64_t i, int64_t k) {
    T* row = inverse + i * size;
    for (; k < i; ++k) subtract_row(row, lower[i * size + k], inverse + k * size, 0, k + 1);
    const T scale = T(1) / lower[i * size + i];
    for (int64_t j = 0; j < i; ++j) row[j] *= scale;
    row[i] = scale;
  };
  for (int64_t i = 0; i < size; i += 2) {
    const bool pair = i + 1 < size;
    int64_t k = 0;
    for (; pair && k + kTogether <= i; k += kTogether)
      subtract_rows(inverse + i * size, inverse + (i + 1) * size, lower + i * size + k,
                    lower + (i + 1) * size + k, 1, inverse + k * size, size, 0, k + kTogether);
    finish(i, k);
    if (pair) finish(i + 1, k);
  }
}

template <typename T>
void invert_lower(const T* lower, T* inverse, int64_t size) {
  if (size <= kSmall) return small_triangular_inverse(lower, inverse, size);
  const Tensor own = wrap(lower, size, size), identity = at::eye(size, own.options());
  wrap(inverse, size, size).copy_(at::linalg_solve_triangular(own, identity, false));
}

// Returns 0, or the index of the pivot that failed.
template <typename T>
int32_t factorise(const T* matrix, T* lower, int64_t size) {
  if (size <= kSmall) {
    Scratch<T> upper(size * size);
    return small_cholesky(matrix, upper.data(), lower, size);
  }
  auto [factor, status] = at::linalg_cholesky_ex(wrap(matrix, size, size));
  wrap(lower, size, size).copy_(factor);
  return status.template item<int32_t>();
}

// Lower factors with their inverses, and per sample 0 or the index of the pivot that failed.
std::tuple<Tensor, Tensor, Tensor> cholesky_inverse_forward(const Tensor& matrix) {
  check_square(matrix, "the matrix to factorise");
  Tensor lower = like(matrix), inverse = like(matrix);
  Tensor info = at::zeros({matrix.size(0)}, matrix.options().dtype(at::kInt));
  for_each_sample(matrix, [&]<typename T>(T, int64_t s) {
    int32_t& failed = info.data_ptr<int32_t>()[s];
    failed = factorise(from<T>(matrix, s), into<T>(lower, s), matrix.size(1));
    if (failed == 0) invert_lower(from<T>(lower, s), into<T>(inverse, s), matrix.size(1));
  });
  return {lower, inverse, info};
}

// Adds the lower triangle of alpha A^T B (transposed) or alpha A B^T to beta times out, for
// lower-triangular A and B; what is above the diagonal is left undefined.
template <typename T>
void lower_products(bool transpose_first, const T* a, const T* b, T alpha, T beta, T* out,
                    int64_t size) {
  const int64_t half = half_of(size), rest = size - half;
  const bool first = transpose_first, second = !transpose_first;
  const int64_t left = half * size, corner = left + half;  // offsets of the lower blocks
  if (transpose_first) {  // (A^T B)_ij sums over k >= max(i, j)
    gemm<T>(first, second, half, half, size, alpha, a, size, b, size, beta, out, size);
    gemm<T>(first, second, rest, half, rest, alpha, a + corner, size, b + left, size, beta,
            out + left, size);
    gemm<T>(first, second, rest, rest, rest, alpha, a + corner, size, b + corner, size, beta,
            out + corner, size);
  } else {  // (A B^T)_ij, i >= j, sums over k <= j
    gemm<T>(first, second, size, half, half, alpha, a, size, b, size, beta, out, size);
    gemm<T>(first, second, rest, rest, size, alpha, a + left, size, b + left, size, beta,
            out + corner, size);
  }
}

template <typename T>
void mirror(T* __restrict matrix, int64_t size) {
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < i; ++j) matrix[j * size + i] = matrix[i * size + j];
}

// alpha A B^T in blocks on and below the diagonal; what is above them is left undefined.
template <typename T>
void lower_of_product(T alpha, const T* a, const T* b, T* out, int64_t size, int64_t inner) {
  constexpr int64_t block = 48;
  for (int64_t k = 0; k < size; k += block) {
    const int64_t high = std::min(block, size - k);
    gemm<T>(false, true, high, k + high, inner, alpha, a + k * inner, inner, b, inner, 0,
            out + k * size, size);
  }
}

// left * right, or left^T * right, for left = [H; V] with lower-triangular H: by blocks of rows of H,
// leaving out what is zero above its diagonal.
template <typename T>
void trapezoidal_product(bool transpose, const T* left, const T* right, T* out, int64_t height,
                         int64_t size, int64_t columns) {
  constexpr int64_t block = 32;
  const int64_t blocks = std::max<int64_t>(1, size / block);
  for (int64_t i = 0; i < blocks; ++i) {
    const bool last = i + 1 == blocks;
    const int64_t begin = i * block, end = last ? size : begin + block;
    if (transpose)
      gemm<T>(true, false, end - begin, columns, height - begin, 1, left + begin * size + begin, size,
              right + begin * columns, columns, 0, out + begin * columns, columns);
    else
      gemm<T>(false, false, (last ? height : end) - begin, columns, end, 1, left + begin * size, size,
              right, columns, 0, out + begin * columns, columns);
  }
}

// H^T H for lower-triangular H.
template <typename T>
void inner_product(const T* lower, T* out, int64_t size) {
  lower_products<T>(true, lower, lower, 1, 0, out, size);
  mirror(out, size);
}

// Halve everything and mirror the lower triangle: (Phi(M) + Phi(M)^T) / 2.
template <typename T>
void halve_and_mirror(T* __restrict matrix, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j < i; ++j) {
      matrix[i * size + j] *= T(0.5);
      matrix[j * size + i] = matrix[i * size + j];
    }
    matrix[i * size + i] *= T(0.5);
  }
}

// L^-T S L^-1 for symmetric S: lower blocks, then mirrored.
template <typename T>
void sandwich(const T* inverse, const T* symmetric, T* scratch, T* out, int64_t size) {
  const int64_t half = half_of(size), rest = size - half;
  const int64_t left = half * size, corner = left + half;
  gemm<T>(false, false, size, half, size, 1, symmetric, size, inverse, size, 0, scratch, size);
  gemm<T>(false, false, rest, rest, rest, 1, symmetric + corner, size, inverse + corner, size, 0,
          scratch + corner, size);
  gemm<T>(true, false, half, half, size, 1, inverse, size, scratch, size, 0, out, size);
  gemm<T>(true, false, rest, half, rest, 1, inverse + corner, size, scratch + left, size, 0,
          out + left, size);
  gemm<T>(true, false, rest, rest, rest, 1, inverse + corner, size, scratch + corner, size, 0,
          out + corner, size);
  mirror(out, size);
}

// X S X^T for lower-triangular X and symmetric S: upper blocks, then mirrored.
template <typename T>
void congruence(const T* X, const T* symmetric, T* scratch, T* out, int64_t size) {
  const int64_t rest = half_of(size), half = size - rest;
  const T* left = X + half * size;
  gemm<T>(false, true, size, rest, size, 1, symmetric, size, left, size, 0, scratch + half, size);
  gemm<T>(false, true, half, half, half, 1, symmetric, size, X, size, 0, scratch, size);
  gemm<T>(false, false, rest, rest, size, 1, left, size, scratch + half, size, 0,
          out + half * size + half, size);
  gemm<T>(false, false, half, size, half, 1, X, size, scratch, size, 0, out, size);
  for (int64_t i = 0; i < half; ++i)
    for (int64_t j = half; j < size; ++j) out[j * size + i] = out[i * size + j];
}

Tensor cholesky_inverse_backward(const Tensor& lower, const Tensor& inverse,
                                 const std::optional<Tensor>& grad_lower,
                                 const std::optional<Tensor>& grad_inverse) {
  check_square(inverse, "the inverse factor");
  TORCH_CHECK(grad_lower || grad_inverse, "deepwishart: there is no gradient to send back");
  check_shape(lower, inverse.sizes(), "the factor");
  check_shape(grad_lower, inverse.sizes(), "the factor's gradient");
  check_shape(grad_inverse, inverse.sizes(), "the inverse factor's gradient");
  Tensor result = like(inverse);
  const int64_t size = inverse.size(-1), all = size * size;
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(2 * all);
    T* middle = scratch.data();
    const T* own = from<T>(inverse, s);
    if (grad_lower)
      lower_products<T>(true, from<T>(lower, s), from<T>(*grad_lower, s), 1, 0, middle, size);
    if (grad_inverse)
      lower_products<T>(false, from<T>(*grad_inverse, s), own, -1, grad_lower ? 1 : 0, middle, size);
    halve_and_mirror(middle, size);
    sandwich(own, middle, middle + all, into<T>(result, s), size);
  });
  return result;
}

template <typename T>
T dot(const T* __restrict a, const T* __restrict b, int64_t count) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) total += a[i] * b[i];
  return total;
}

}  // namespace
