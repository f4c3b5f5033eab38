// Sums over rows that the collapsed bound needs; derivation in numerics/collapsed.py.

#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "factors.h"
#include "rows.h"
#include "support.h"

namespace {

// T = A A^T, blocks on and below the diagonal, then mirrored; c = A y.
template <typename T>
void sum_rows(const T* A, const T* y, T* gram, T* sums, int64_t size, int64_t rows, int64_t width) {
  constexpr int64_t block = 48;
  for (int64_t i = 0; i < size; i += block) {
    const int64_t height = std::min(block, size - i);
    gemm<T>(false, true, height, i + height, rows, 1, A + i * rows, rows, A, rows, 0, gram + i * size,
            size);
  }
  mirror(gram, size);
  gemm<T>(false, false, size, width, rows, 1, A, rows, y, width, 0, sums, width);
}

// gK_it = H^T (gT + gT^T) A + H^T gc y^T, and gK_ii = -H^T sym(Phi((gT + gT^T) T + gc c^T)) H.
template <typename T>
void sum_rows_backward(const T* H, const T* A, const T* y, const T* gram, const T* sums,
                       const T* grad_gram, const T* grad_sums, T* grad_cross, T* grad_kernel,
                       int64_t size, int64_t rows, int64_t width) {
  const int64_t all = size * size;
  Scratch<T> scratch(3 * all + size * width);
  T *both = scratch.data(), *middle = both + all, *work = middle + all, *narrow = work + all;
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      both[i * size + j] = grad_gram[i * size + j] + grad_gram[j * size + i];
  gemm<T>(true, false, size, size, size, 1, H, size, both, size, 0, work, size);
  gemm<T>(false, false, size, rows, size, 1, work, size, A, rows, 0, grad_cross, rows);
  gemm<T>(true, false, size, width, size, 1, H, size, grad_sums, width, 0, narrow, width);
  gemm<T>(false, true, size, rows, width, 1, narrow, width, y, width, 1, grad_cross, rows);
  gemm<T>(false, false, size, size, size, -1, both, size, gram, size, 0, middle, size);
  gemm<T>(false, true, size, size, width, -1, grad_sums, width, sums, width, 1, middle, size);
  halve_and_mirror(middle, size);
  sandwich(H, middle, work, grad_kernel, size);
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> row_sums_forward(
    const Tensor& inverse, const Tensor& targets, Optional given, Optional left, Optional right,
    Optional log_height, Optional log_lengthscale) {
  check_square(inverse, "the inverse factor");
  const auto batch = inverse.size(0), size = inverse.size(1),
             width = last_size(targets, 2, "the targets");
  const Cross cross(given, left, right, log_height, log_lengthscale, batch, size);
  const auto rows = cross.matrix.size(2);
  check_shape(targets, {rows, width}, "the targets");
  Tensor projected = like(cross.matrix, cross.matrix.sizes()), gram = at::empty_like(inverse),
         sums = like(inverse, {batch, size, width});
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    T* A = into<T>(projected, s);
    trapezoidal_product(false, from<T>(inverse, s), cross.form<T>({s, 0, rows}), A, size, size, rows);
    sum_rows(A, from<T>(targets), into<T>(gram, s), into<T>(sums, s), size, rows, width);
  });
  return {gram, sums, projected, cross.kept, cross.a, cross.b};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> row_sums_backward(
    const Tensor& inverse, const Tensor& targets, const Tensor& cross, const Tensor& projected,
    Optional a, Optional b, Optional log_lengthscale, const Tensor& gram, const Tensor& sums,
    const Tensor& grad_gram, const Tensor& grad_sums) {
  check_square(inverse, "the inverse factor");
  const auto batch = inverse.size(0), size = inverse.size(1),
             width = last_size(targets, 2, "the targets");
  check_cross(cross, batch, size);
  const auto rows = cross.size(2);
  check_shape(projected, cross.sizes(), "the projected rows");
  check_shape(targets, {rows, width}, "the targets");
  for (const Tensor* t : {&gram, &grad_gram}) check_shape(*t, inverse.sizes(), "a sum of squares");
  for (const Tensor* t : {&sums, &grad_sums}) check_shape(*t, {batch, size, width}, "a sum");
  Tensor grad_kernel = at::empty_like(inverse);
  const CrossGradient out(cross, a, b, log_lengthscale);
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    out.receive<T>(s, [&](T* grad_cross) {
      sum_rows_backward(from<T>(inverse, s), from<T>(projected, s), from<T>(targets),
                        from<T>(gram, s), from<T>(sums, s), from<T>(grad_gram, s),
                        from<T>(grad_sums, s), grad_cross, into<T>(grad_kernel, s), size, rows,
                        width);
    });
  });
  return {grad_kernel, out.cross, out.left, out.right, out.scalar(0), out.scalar(1)};
}

}  // namespace
