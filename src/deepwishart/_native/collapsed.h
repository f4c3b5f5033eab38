// Sums over rows that the collapsed bound needs; derivation in operations/collapsed.py.

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

std::tuple<Tensor, Tensor, Tensor> row_sums_forward(const Tensor& inverse, const Tensor& cross,
                                                    const Tensor& targets) {
  check_square(inverse, "the inverse factor");
  const auto batch = inverse.size(0), size = inverse.size(1),
             rows = last_size(cross, 3, "the kernel matrix of the rows"),
             width = last_size(targets, 2, "the targets");
  check_shape(cross, {batch, size, rows}, "the kernel matrix of the rows");
  check_shape(targets, {rows, width}, "the targets");
  Tensor projected = at::empty_like(cross), gram = at::empty_like(inverse),
         sums = like(cross, {batch, size, width});
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(cross.scalar_type(), "row_sums", [&] {
      scalar_t* A = projected.data_ptr<scalar_t>() + s * size * rows;
      trapezoidal_product(false, inverse.const_data_ptr<scalar_t>() + s * size * size,
                          cross.const_data_ptr<scalar_t>() + s * size * rows, A, size, size, rows);
      sum_rows(A, targets.const_data_ptr<scalar_t>(), gram.data_ptr<scalar_t>() + s * size * size,
               sums.data_ptr<scalar_t>() + s * size * width, size, rows, width);
    });
  });
  return {gram, sums, projected};
}

// What both gradients need of their arguments.
void check_sums(const Tensor& inverse, const Tensor& projected, const Tensor& targets,
                const Tensor& gram, const Tensor& sums, const Tensor& grad_gram,
                const Tensor& grad_sums) {
  check_square(inverse, "the inverse factor");
  const auto batch = inverse.size(0), size = inverse.size(1),
             rows = last_size(projected, 3, "the projected rows"),
             width = last_size(targets, 2, "the targets");
  check_shape(projected, {batch, size, rows}, "the projected rows");
  check_shape(targets, {rows, width}, "the targets");
  for (const Tensor* t : {&gram, &grad_gram}) check_shape(*t, inverse.sizes(), "a sum of squares");
  for (const Tensor* t : {&sums, &grad_sums}) check_shape(*t, {batch, size, width}, "a sum");
}

std::tuple<Tensor, Tensor> row_sums_backward(const Tensor& inverse, const Tensor& projected,
                                             const Tensor& targets, const Tensor& gram,
                                             const Tensor& sums, const Tensor& grad_gram,
                                             const Tensor& grad_sums) {
  check_sums(inverse, projected, targets, gram, sums, grad_gram, grad_sums);
  const auto size = inverse.size(1), rows = projected.size(2), width = targets.size(1);
  Tensor grad_kernel = at::empty_like(inverse), grad_cross = at::empty_like(projected);
  for_each_sample(inverse.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(inverse.scalar_type(), "row_sums_backward", [&] {
      const auto own = [s](const Tensor& tensor, int64_t count) {
        return tensor.const_data_ptr<scalar_t>() + s * count;
      };
      sum_rows_backward(own(inverse, size * size), own(projected, size * rows),
                        targets.const_data_ptr<scalar_t>(), own(gram, size * size),
                        own(sums, size * width), own(grad_gram, size * size),
                        own(grad_sums, size * width),
                        grad_cross.data_ptr<scalar_t>() + s * size * rows,
                        grad_kernel.data_ptr<scalar_t>() + s * size * size, size, rows, width);
    });
  });
  return {grad_kernel, grad_cross};
}

// The same with K_it = h exp(-|x_i - y_t|^2 / 2 l^2) formed on the way.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_row_sums_forward(
    const Tensor& inverse, const Tensor& left, const Tensor& right, const Tensor& log_height_scalar,
    const Tensor& log_lengthscale_scalar, const Tensor& targets) {
  const double log_height = log_height_scalar.item<double>(),
               log_lengthscale = log_lengthscale_scalar.item<double>();
  check_square(inverse, "the inverse factor");
  const auto batch = inverse.size(0), size = inverse.size(1);
  check_features(left, right, batch, size);
  const auto rows = right.size(1), width = last_size(targets, 2, "the targets");
  check_shape(targets, {rows, width}, "the targets");
  const GaussianRows kept{like(left, {batch, size, rows}), like(left, {batch, size, rows}),
                          at::empty_like(left), at::empty_like(right)};
  Tensor gram = at::empty_like(inverse), sums = like(left, {batch, size, width});
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(left.scalar_type(), "gaussian_row_sums", [&] {
      const scalar_t* cross =
          form_gaussian<scalar_t>(left, right, log_height, log_lengthscale, kept, s);
      scalar_t* A = kept.product.data_ptr<scalar_t>() + s * size * rows;
      trapezoidal_product(false, inverse.const_data_ptr<scalar_t>() + s * size * size, cross, A,
                          size, size, rows);
      sum_rows(A, targets.const_data_ptr<scalar_t>(), gram.data_ptr<scalar_t>() + s * size * size,
               sums.data_ptr<scalar_t>() + s * size * width, size, rows, width);
    });
  });
  return {gram, sums, kept.cross, kept.product, kept.a, kept.b};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_row_sums_backward(
    const Tensor& inverse, const Tensor& cross, const Tensor& projected, const Tensor& a,
    const Tensor& b, const Tensor& log_lengthscale_scalar, const Tensor& targets,
    const Tensor& gram, const Tensor& sums, const Tensor& grad_gram, const Tensor& grad_sums) {
  const double log_lengthscale = log_lengthscale_scalar.item<double>();
  check_sums(inverse, projected, targets, gram, sums, grad_gram, grad_sums);
  const auto size = inverse.size(1), rows = projected.size(2), width = targets.size(1);
  check_shape(cross, projected.sizes(), "the kernel matrix of the rows");
  check_kept_features(a, b, cross);
  const GaussianRows kept{cross, projected, a, b};
  const GaussianGradients out = empty_gradients(inverse, kept, sums);
  for_each_sample(a.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "gaussian_row_sums_backward", [&] {
      Scratch<scalar_t> grad_cross(size * rows);
      const auto own = [s](const Tensor& tensor, int64_t count) {
        return tensor.const_data_ptr<scalar_t>() + s * count;
      };
      sum_rows_backward(own(inverse, size * size), own(projected, size * rows),
                        targets.const_data_ptr<scalar_t>(), own(gram, size * size),
                        own(sums, size * width), own(grad_gram, size * size),
                        own(grad_sums, size * width), grad_cross.data(),
                        out.projection.data_ptr<scalar_t>() + s * size * size, size, rows, width);
      feature_gradients(grad_cross.data(), kept, log_lengthscale, out, s);
    });
  });
  const Tensor scalars = sum_samples(out.scalars);
  return {out.projection, out.left, out.right, scalars[0].clone(), scalars[1].clone()};
}

}  // namespace
