// Sums over rows that the collapsed bound needs; derivation in numerics/collapsed.py.

#pragma once

#include <algorithm>
#include <cstdint>
#include <tuple>

#include "factors.h"
#include "gaussian.h"
#include "support.h"

namespace {

// A = H K_it, T = A A^T, c = A y, and for the gradient K_it with its scaled features.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> row_sums_forward(
    const Tensor& inverse, const Tensor& targets, const Tensor& left, const Tensor& right,
    const Tensor& log_height, const Tensor& log_lengthscale) {
  check_square(inverse, "the inverse factor");
  const int64_t batch = inverse.size(0), size = inverse.size(1),
                width = last_size(targets, 2, "the targets");
  const Cross cross(left, right, log_height, log_lengthscale, batch, size);
  check_shape(targets, {cross.parts.rows, width}, "the targets");
  Tensor projected = like(cross.matrix, cross.matrix.sizes());
  Tensor gram = like(inverse, {cross.parts.count, size, size}),
         sums = like(inverse, {cross.parts.count, size, width});
  for_each(inverse, cross.parts.count, [&]<typename T>(T, int64_t i) {
    constexpr int64_t block = 48;
    const Part part = cross.parts[i];
    const int64_t rows = part.rows;
    T *A = part.in<T>(projected, size), *own = into<T>(gram, i);
    trapezoidal_product(false, from<T>(inverse, part.sample), cross.form<T>(part), A, size, size,
                        rows);
    for (int64_t k = 0; k < size; k += block) {  // blocks on and below the diagonal
      const int64_t high = std::min(block, size - k);
      gemm<T>(false, true, high, k + high, rows, 1, A + k * rows, rows, A, rows, 0, own + k * size,
              size);
    }
    mirror(own, size);
    gemm<T>(false, false, size, width, rows, 1, A, rows, from<T>(targets) + part.begin * width, width,
            0, into<T>(sums, i), width);
  });
  const auto collect = [&](const Tensor& found) { return cross.parts.collect(found); };
  return {collect(gram), collect(sums), projected, cross.matrix, cross.a, cross.b};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> row_sums_backward(
    const Tensor& inverse, const Tensor& targets, const Tensor& a, const Tensor& b,
    const Tensor& log_height, const Tensor& log_lengthscale, const Tensor& cross,
    const Tensor& projected, const Tensor& gram, const Tensor& sums, const Tensor& grad_gram,
    const Tensor& grad_sums) {
  check_square(inverse, "the inverse factor");
  const int64_t batch = inverse.size(0), size = inverse.size(1), all = size * size,
                width = last_size(targets, 2, "the targets");
  check_features(a, b, batch, size);
  const CrossGradient out(cross, a, b, log_height, log_lengthscale);
  check_shape(projected, cross.sizes(), "the projected rows");
  check_shape(targets, {out.parts.rows, width}, "the targets");
  for (const Tensor* t : {&gram, &grad_gram}) check_shape(*t, inverse.sizes(), "a sum of squares");
  for (const Tensor* t : {&sums, &grad_sums}) check_shape(*t, {batch, size, width}, "a sum");
  Tensor grad_kernel = like(inverse), by_rows = like(inverse),
         by_targets = like(sums);
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(3 * all);
    T *both = scratch.data(), *middle = both + all, *work = middle + all;
    const T *H = from<T>(inverse, s), *g = from<T>(grad_gram, s), *gc = from<T>(grad_sums, s);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j) both[i * size + j] = g[i * size + j] + g[j * size + i];
    gemm<T>(true, false, size, size, size, 1, H, size, both, size, 0, into<T>(by_rows, s), size);
    gemm<T>(true, false, size, width, size, 1, H, size, gc, width, 0, into<T>(by_targets, s), width);
    gemm<T>(false, false, size, size, size, -1, both, size, from<T>(gram, s), size, 0, middle, size);
    gemm<T>(false, true, size, size, width, -1, gc, width, from<T>(sums, s), width, 1, middle, size);
    halve_and_mirror(middle, size);
    sandwich(H, middle, work, into<T>(grad_kernel, s), size);
  });
  for_each(inverse, out.parts.count, [&]<typename T>(T, int64_t i) {
    const Part part = out.parts[i];
    const int64_t rows = part.rows;
    Scratch<T> scratch(size * rows);
    T* grad = scratch.data();
    gemm<T>(false, false, size, rows, size, 1, from<T>(by_rows, part.sample), size,
            part.in<T>(projected, size), rows, 0, grad, rows);
    gemm<T>(false, true, size, rows, width, 1, from<T>(by_targets, part.sample), width,
            from<T>(targets) + part.begin * width, width, 1, grad, rows);
    out.send_on(grad, i);
  });
  return {grad_kernel, out.to_left(), out.right, out.to_scale(0), out.to_scale(1)};
}

}  // namespace
