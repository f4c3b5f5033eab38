// Sums over rows that the collapsed bound needs; derivation in numerics/collapsed.py.

#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>

#include "factors.h"
#include "gaussian.h"
#include "support.h"

namespace {

// T = A A^T, c = A y and the squares |a_t|^2 of the columns of A = H K_it, and for the gradient A and
// K_it with its scaled features.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> row_sums_forward(
    const Tensor& inverse, const Tensor& targets, const Tensor& left, const Tensor& right,
    const Tensor& log_height, const Tensor& log_lengthscale) {
  check_square(inverse, "the inverse factor");
  const int64_t batch = inverse.size(0), size = inverse.size(1),
                width = last_size(targets, 2, "the targets");
  const Cross cross(left, right, log_height, log_lengthscale, batch, size);
  check_shape(targets, {cross.parts.rows, width}, "the targets");
  Tensor projected = like(cross.matrix, cross.matrix.sizes());
  Tensor gram = like(inverse, {cross.parts.count, size, size}),
         sums = like(inverse, {cross.parts.count, size, width}),
         squares = like(inverse, {batch, cross.parts.rows});
  for_each(inverse, cross.parts.count, [&]<typename T>(T, int64_t i) {
    const Part part = cross.parts[i];
    const int64_t rows = part.rows;
    T* A = part.in<T>(projected, size);
    trapezoidal_product(false, from<T>(inverse, part.sample), cross.form<T>(part), A, size, size,
                        rows);
    lower_of_product<T>(1, A, A, into<T>(gram, i), size, rows);
    mirror(into<T>(gram, i), size);
    gemm<T>(false, false, size, width, rows, 1, A, rows, from<T>(targets) + part.begin * width, width,
            0, into<T>(sums, i), width);
    column_dots(A, A, part.in<T>(squares, 1), size, rows);
  });
  const auto collect = [&](const Tensor& found) { return cross.parts.collect(found); };
  return {collect(gram), collect(sums), squares, projected, cross.matrix, cross.a, cross.b};
}

// Gradients of K_ii, the features and the scales. Those of the squares are missing where the bound does
// not ask for them, which saves half of the work.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> row_sums_backward(
    const Tensor& inverse, const Tensor& targets, const Tensor& a, const Tensor& b,
    const Tensor& log_height, const Tensor& log_lengthscale, const Tensor& cross,
    const Tensor& projected, const Tensor& gram, const Tensor& sums, const Tensor& grad_gram,
    const Tensor& grad_sums, const std::optional<Tensor>& grad_squares) {
  check_square(inverse, "the inverse factor");
  const int64_t batch = inverse.size(0), size = inverse.size(1), all = size * size,
                width = last_size(targets, 2, "the targets");
  check_features(a, b, batch, size);
  const CrossGradient out(cross, a, b, log_height, log_lengthscale);
  check_shape(projected, cross.sizes(), "the projected rows");
  check_shape(targets, {out.parts.rows, width}, "the targets");
  check_shape(grad_squares, {batch, out.parts.rows}, "a row's square");
  for (const Tensor* t : {&gram, &grad_gram}) check_shape(*t, inverse.sizes(), "a sum of squares");
  for (const Tensor* t : {&sums, &grad_sums}) check_shape(*t, {batch, size, width}, "a sum");
  const Tensor both = grad_gram + grad_gram.transpose(1, 2);
  // What rows are multiplied by: S and the gradient of c, or their products with H^T.
  const Tensor left = grad_squares ? both : at::bmm(inverse.transpose(1, 2), both),
               right = grad_squares ? grad_sums : at::bmm(inverse.transpose(1, 2), grad_sums);
  Tensor middle = at::bmm(both, gram).baddbmm_(grad_sums, sums.transpose(1, 2)),
         by_squares = like(inverse, {grad_squares ? out.parts.count : 0, size, size});
  for_each(inverse, out.parts.count, [&]<typename T>(T, int64_t i) {
    const Part part = out.parts[i];
    const int64_t rows = part.rows;
    Scratch<T> scratch(2 * size * rows);
    T *grad = scratch.data(), *weighted = grad + size * rows;
    const T *A = part.in<T>(projected, size), *y = from<T>(targets) + part.begin * width;
    if (grad_squares) {
      scale_columns(A, part.in<T>(*grad_squares, 1), T(2), weighted, size, rows);
      lower_of_product<T>(1, weighted, A, into<T>(by_squares, i), size, rows);
    }
    T* whole = grad_squares ? weighted : grad;
    gemm<T>(false, false, size, rows, size, 1, from<T>(left, part.sample), size, A, rows,
            grad_squares ? 1 : 0, whole, rows);
    gemm<T>(false, true, size, rows, width, 1, from<T>(right, part.sample), width, y, width, 1, whole,
            rows);
    if (grad_squares)
      trapezoidal_product(true, from<T>(inverse, part.sample), weighted, grad, size, size, rows);
    out.send_on(grad, i);
  });
  if (grad_squares) middle += out.parts.collect(by_squares);
  Tensor grad_kernel = like(inverse);
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(all);
    T* M = into<T>(middle, s);
    for (int64_t k = 0; k < all; ++k) M[k] = -M[k];
    halve_and_mirror(M, size);
    sandwich(from<T>(inverse, s), M, scratch.data(), into<T>(grad_kernel, s), size);
  });
  return {grad_kernel, out.to_left(), out.right, out.to_scale(0), out.to_scale(1)};
}

}  // namespace
