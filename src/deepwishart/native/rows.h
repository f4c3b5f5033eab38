// Moments of rows given inducing points; derivation in numerics/rows.py.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "factors.h"
#include "gaussian.h"
#include "support.h"

namespace {

// What is explained of a row's variance is the sum of K * (C K) over the column in double precision,
// and of (H K)^2 with C = H^T H in single, H being lower triangular where K_ii is known. The first form
// saves one of three P^2 N products and rounds where H is large: by the rounding unit times |H|^2.
template <typename T>
constexpr bool kSquared = std::is_same_v<T, double>;

void check_form(const Tensor& form, const Tensor& solved) {
  check_square(form, "the form");
  const int64_t width = last_size(solved, 3, "the weights");
  check_shape(solved, {form.size(0), form.size(1), width}, "the weights");
}

// With G = C or H as above and s = C F, where C is that of a known K_ii if `known`: mean s^T K and
// deviation sqrt(max(h - explained, floor)), and for the gradient [G; s^T] K, K and scaled features.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_rows_forward(
    bool known, const Tensor& form, const Tensor& solved, const Tensor& left, const Tensor& right,
    const Tensor& log_height, const Tensor& log_lengthscale) {
  check_form(form, solved);
  const int64_t batch = form.size(0), size = form.size(1), width = solved.size(2);
  const Cross cross(left, right, log_height, log_lengthscale, batch, size);
  const int64_t height = size + width, rows = cross.parts.rows;
  Tensor product = like(left, {batch, height, rows}), mean = like(left, {batch, rows, width}),
         deviation = like(left, {batch, rows});
  for_each(left, cross.parts.count, [&]<typename T>(T, int64_t i) {
    const Part part = cross.parts[i];
    const int64_t s = part.sample, columns = part.rows;
    Scratch<T> scratch(height * size);
    T *stacked = scratch.data(), *own = part.in<T>(product, height);
    T* d = part.in<T>(deviation, 1);
    std::copy_n(from<T>(form, s), size * size, stacked);
    transpose_into(from<T>(solved, s), stacked + size * size, size, width);
    const T* K = cross.form<T>(part);
    if (kSquared<T> || !known)
      gemm<T>(false, false, height, columns, size, 1, stacked, size, K, columns, 0, own, columns);
    else
      trapezoidal_product(false, stacked, K, own, height, size, columns);
    transpose_into(own + size * columns, part.in<T>(mean, width), width, columns);
    column_dots(own, kSquared<T> ? K : own, d, size, columns);
    const T h = std::exp(static_cast<T>(cross.scales.log_height));
    const T floor = std::numeric_limits<T>::epsilon() * h;
    for (int64_t t = 0; t < columns; ++t) d[t] = std::sqrt(std::max(h - d[t], floor));
  });
  return {mean, deviation, product, cross.matrix, cross.a, cross.b};
}

// Gradients of K_ii and F, of which G and s are known functions, or else of G and s themselves.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_rows_backward(
    bool known, const Tensor& form, const Tensor& solved, const Tensor& a, const Tensor& b,
    const Tensor& log_height, const Tensor& log_lengthscale, const Tensor& cross,
    const Tensor& product, const Tensor& deviation, const Tensor& grad_mean,
    const Tensor& grad_deviation) {
  check_form(form, solved);
  check_features(a, b, form.size(0), form.size(1));
  const CrossGradient out(cross, a, b, log_height, log_lengthscale);
  const int64_t batch = form.size(0), size = form.size(1), width = solved.size(2);
  const int64_t height = size + width, all = size * size, count = out.parts.count;
  check_shape(product, {batch, height, out.parts.rows}, "the kept product");
  check_shape(grad_mean, {batch, out.parts.rows, width}, "the mean's gradient");
  for (const Tensor* t : {&deviation, &grad_deviation})
    check_shape(*t, {batch, out.parts.rows}, "the deviation");
  Tensor to_form = like(form, {count, size, size}), to_solved = like(form, {count, size, width});
  for_each(a, count, [&]<typename T>(T, int64_t i) {
    const Part part = out.parts[i];
    const int64_t rows = part.rows, half = size / 2;
    Scratch<T> scratch((height + 2 * size + 1) * rows + height * size);
    T *above = scratch.data(), *below = above + size * rows, *spare = above + height * rows;
    T *inverted = spare + size * rows, *slopes = inverted + size * rows, *products = slopes + rows;
    const T *s = from<T>(solved, part.sample), *own = part.in<T>(product, height);
    const T *K = part.in<T>(cross, size), *d = part.in<T>(deviation, 1);
    T *square = into<T>(to_form, i), *narrow = into<T>(to_solved, i);

    // The gradient of what is explained; floored variances are constants.
    const T h = std::exp(static_cast<T>(out.scales.log_height));
    const T floor = std::sqrt(std::numeric_limits<T>::epsilon() * h);
    T to_height = 0;
    for (int64_t t = 0; t < rows; ++t) {
      slopes[t] = d[t] > floor ? T(-0.5) * part.in<T>(grad_deviation, 1)[t] / d[t] : T(0);
      to_height -= h * slopes[t];
    }
    transpose_into(part.in<T>(grad_mean, width), below, rows, width);
    const T* B = own;  // C K
    if (!kSquared<T>) {
      const T* H = from<T>(form, part.sample);
      if (known)
        trapezoidal_product(true, H, own, inverted, size, size, rows);
      else
        gemm<T>(true, false, size, rows, size, 1, H, size, own, rows, 0, inverted, rows);
      B = inverted;
    }
    T* grad_cross = known ? above : spare;
    scale_columns(B, slopes, T(2), grad_cross, size, rows);
    gemm<T>(false, false, size, rows, width, 1, s, width, below, rows, 1, grad_cross, rows);
    if (!known) scale_columns(kSquared<T> ? K : own, slopes, T(kSquared<T> ? 1 : 2), above, size, rows);
    // [gK_it; gm^T] B^T, or the gradients of the form above gm^T K^T. What is symmetric in the end
    // needs no upper right quarter.
    const bool symmetric = known || kSquared<T>;
    const int64_t left_out = symmetric ? half : 0;
    const T* by = known ? B : K;
    gemm<T>(false, true, left_out, half, rows, 1, above, rows, by, rows, 0, products, size);
    gemm<T>(false, true, height - left_out, size, rows, 1, above + left_out * rows, rows, by, rows, 0,
            products + left_out * size, size);
    transpose_into(products + all, narrow, width, size);
    for (int64_t k = 0; k < all; ++k) square[k] = T(known ? -0.5 : 1) * products[k];
    if (known)
      gemm<T>(false, true, size, size, width, T(-0.5), narrow, width, s, width, 1, square, size);
    if (symmetric) mirror(square, size);
    out.send_on(grad_cross, i, to_height);
  });
  return {out.parts.collect(to_form), out.parts.collect(to_solved), out.to_left(), out.right,
          out.to_scale(0), out.to_scale(1)};
}

}  // namespace
