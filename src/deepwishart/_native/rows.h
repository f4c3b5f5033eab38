// Rows of a layer given its inducing points; kernel matrices.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "loops.h"
#include "support.h"

namespace {

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

// What the rows of a layer keep for the gradient: K, its product with the stacked matrix below, and
// the scaled features.
struct GaussianRows {
  Tensor cross, product, a, b;
};

GaussianRows empty_rows(const Tensor& left, const Tensor& right, const Tensor& weights) {
  const auto batch = left.size(0), inducing = left.size(1), rows = right.size(1);
  return {like(left, {batch, inducing, rows}),
          like(left, {batch, inducing + weights.size(2), rows}), at::empty_like(left),
          at::empty_like(right)};
}

// Squares |H k_t|^2 are column sums of (H K)^2 or, with C = H^T H, of K * (C K). The second form
// saves one of three P^2 N products, in the gradient, and rounds where H is large: by about the
// rounding unit times |H|^2, which is nothing in double and too much in single precision.
template <typename T>
constexpr bool kSquared = std::is_same_v<T, double>;

// [C; w^T H] or [H; w^T H]: times K it is C K or H K above mean^T. Narrow products on their own are
// slow.
template <typename T>
void stack(const T* projection, const T* weights, T* stacked, int64_t inducing, int64_t width) {
  if constexpr (kSquared<T>)
    gemm<T>(true, false, inducing, inducing, inducing, 1, projection, inducing, projection,
            inducing, 0, stacked, inducing);
  else
    std::copy(projection, projection + inducing * inducing, stacked);
  gemm<T>(true, false, width, inducing, inducing, 1, weights, width, projection, inducing, 0,
          stacked + inducing * inducing, inducing);
}

// One sample of K_it = h exp(-|x_i - y_t|^2 / 2 l^2), kept together with the scaled features it is made
// of. Features are centred first, which changes no distance and limits cancellation.
template <typename T>
T* form_gaussian(const Tensor& left, const Tensor& right, double log_height,
                 double log_lengthscale, const GaussianRows& kept, int64_t s) {
  const auto inducing = left.size(1), rows = right.size(1), features = left.size(2);
  Scratch<T> scratch(inducing + rows + features);
  T *norms = scratch.data(), *centre = norms + inducing + rows;
  const T factor = static_cast<T>(std::exp(-log_lengthscale));
  const T* x = left.const_data_ptr<T>() + s * inducing * features;
  T* a = kept.a.data_ptr<T>() + s * inducing * features;
  T* b = kept.b.data_ptr<T>() + s * rows * features;
  T* cross = kept.cross.data_ptr<T>() + s * inducing * rows;
  mean_row(x, centre, inducing, features);
  centre_and_scale(x, centre, factor, a, inducing, features);
  centre_and_scale(right.const_data_ptr<T>() + s * rows * features, centre, factor, b, rows,
                   features);
  half_squared_norms(a, norms, inducing, features);
  half_squared_norms(b, norms + inducing, rows, features);
  gemm<T>(false, true, inducing, rows, features, 1, a, features, b, features, 0, cross, rows);
  gaussian_in_place(cross, norms, norms + inducing, static_cast<T>(log_height), inducing, rows);
  return cross;
}

// The same with mean^T (returned) and squares, given the stacked matrix, whose upper part may be known
// to be lower triangular.
template <typename T>
const T* gaussian_rows(const T* stacked, const Tensor& left, const Tensor& right, double log_height,
                       double log_lengthscale, int64_t width, const GaussianRows& kept, int64_t s,
                       T* squares, bool triangular) {
  const auto inducing = left.size(1), rows = right.size(1);
  T* cross = form_gaussian<T>(left, right, log_height, log_lengthscale, kept, s);
  T* product = kept.product.data_ptr<T>() + s * (inducing + width) * rows;
  if (triangular)
    trapezoidal_product(false, stacked, cross, product, inducing + width, inducing, rows);
  else
    gemm<T>(false, false, inducing + width, rows, inducing, 1, stacked, inducing, cross, rows, 0,
            product, rows);
  column_dots(product, kSquared<T> ? cross : product, squares, inducing, rows);
  return product + inducing * rows;
}

struct GaussianGradients {
  Tensor projection, left, right, scalars, weights;
};

GaussianGradients empty_gradients(const Tensor& projection, const GaussianRows& kept,
                                  const Tensor& weights) {
  return {at::empty_like(projection), at::empty_like(kept.a), at::empty_like(kept.b),
          at::zeros({kept.a.size(0), 2}, kept.a.options()), at::empty_like(weights)};
}

// Gradients of features and of (log h, log l), given that of K_it, which is overwritten. With E the
// exponent and dE = gK * K: gradients of the scaled features are those of a product, less each row
// times the sum of its dE; the gradient of log h is the sum of all dE; E - log h is homogeneous of
// degree two, so the gradient of log l is minus the sum of features times theirs.
template <typename T>
void feature_gradients(T* grad_cross, const GaussianRows& kept, double log_lengthscale,
                       const GaussianGradients& out, int64_t s) {
  const auto inducing = kept.a.size(1), rows = kept.b.size(1), features = kept.a.size(2);
  Scratch<T> scratch(inducing + rows + rows * features);
  T *row_sums = scratch.data(), *column_sums = row_sums + inducing, *wide = column_sums + rows;
  const T* a = kept.a.const_data_ptr<T>() + s * inducing * features;
  const T* b = kept.b.const_data_ptr<T>() + s * rows * features;
  T* grad_a = out.left.data_ptr<T>() + s * inducing * features;
  T* grad_b = out.right.data_ptr<T>() + s * rows * features;
  T* scalars = out.scalars.data_ptr<T>() + 2 * s;
  multiply_and_sum(grad_cross, kept.cross.const_data_ptr<T>() + s * inducing * rows, row_sums,
                   column_sums, inducing, rows);
  gemm<T>(false, false, inducing, features, rows, 1, grad_cross, rows, b, features, 0, grad_a,
          features);
  gemm<T>(true, false, features, rows, inducing, 1, a, features, grad_cross, rows, 0, wide, rows);
  transpose_into(wide, grad_b, features, rows);
  subtract_scaled_rows(grad_a, row_sums, a, inducing, features);
  subtract_scaled_rows(grad_b, column_sums, b, rows, features);
  const T factor = static_cast<T>(std::exp(-log_lengthscale));
  for (int64_t i = 0; i < inducing; ++i) scalars[0] += row_sums[i];
  scalars[1] -= scale_and_dot(grad_a, a, factor, inducing * features);
  scalars[1] -= scale_and_dot(grad_b, b, factor, rows * features);
}

// Gradients of one sample of condition, given those of mean and squares, gm and gs.
//
// Squared form: gC = K diag(gs) K^T and (K gm)^T are one product; gK = 2 C K diag(gs) + H^T w gm^T;
// gH = 2 H gC + w (K gm)^T. Otherwise, with gA = w gm^T + 2 A diag(gs): gH = gA K^T, where
// [2 A diag(gs); gm^T] K^T is one product, and gK = H^T gA = [H; w^T H]^T [2 A diag(gs); gm^T].
// Either way gw = H K gm.
template <typename T>
void condition_gradients(const Tensor& projection, const Tensor& weights, const Tensor& crosses,
                         const Tensor& all_products, const Tensor& grad_means,
                         const Tensor& all_grad_squares, const Tensor& grad_projection,
                         const Tensor& grad_weights, T* grad_cross, int64_t s) {
  const auto inducing = crosses.size(1), rows = crosses.size(2);
  const auto width = weights.size(2), height = inducing + width;
  Scratch<T> scratch(height * rows + 2 * height * inducing);
  T *above = scratch.data(), *products = above + height * rows;
  T *stacked = products + height * inducing;
  T *below = above + inducing * rows, *solved = stacked + inducing * inducing;
  const T* H = projection.const_data_ptr<T>() + s * inducing * inducing;
  const T* w = weights.const_data_ptr<T>() + s * inducing * width;
  const T* cross = crosses.const_data_ptr<T>() + s * inducing * rows;
  const T* product = all_products.const_data_ptr<T>() + s * height * rows;
  const T* grad_mean = grad_means.const_data_ptr<T>() + s * rows * width;
  const T* grad_squares = all_grad_squares.const_data_ptr<T>() + s * rows;
  T* grad_H = grad_projection.data_ptr<T>() + s * inducing * inducing;

  transpose_into(grad_mean, below, rows, width);
  gemm<T>(true, false, width, inducing, inducing, 1, w, width, H, inducing, 0, solved, inducing);
  if constexpr (kSquared<T>) {
    scale_columns(cross, grad_squares, T(1), above, inducing, rows);
    scale_columns(product, grad_squares, T(2), grad_cross, inducing, rows);
    gemm<T>(true, false, inducing, rows, width, 1, solved, inducing, below, rows, 1, grad_cross,
            rows);
  } else {
    std::copy(H, H + inducing * inducing, stacked);
    scale_columns(product, grad_squares, T(2), above, inducing, rows);
    gemm<T>(true, false, inducing, rows, height, 1, stacked, inducing, above, rows, 0, grad_cross,
            rows);
  }
  gemm<T>(false, true, height, inducing, rows, 1, above, rows, cross, rows, 0, products, inducing);
  const T* narrow = products + inducing * inducing;  // (K gm)^T
  if constexpr (kSquared<T>)
    gemm<T>(false, false, inducing, inducing, inducing, 2, H, inducing, products, inducing, 0,
            grad_H, inducing);
  else
    std::copy(products, products + inducing * inducing, grad_H);
  gemm<T>(false, false, inducing, inducing, width, 1, w, width, narrow, inducing, 1, grad_H,
          inducing);
  gemm<T>(false, true, inducing, width, inducing, 1, H, inducing, narrow, inducing, 0,
          grad_weights.data_ptr<T>() + s * inducing * width, width);
}

void check_condition(const Tensor& projection, const Tensor& cross, const Tensor& weights) {
  check_square(projection, "the projection");
  const auto batch = projection.size(0), size = projection.size(1);
  check_shape(cross, {batch, size, last_size(cross, 3, "the kernel matrix of the rows")},
              "the kernel matrix of the rows");
  check_shape(weights, {batch, size, last_size(weights, 3, "the weights")}, "the weights");
}

// What gradients of moments need besides: the kept product, and the incoming gradients.
void check_moments(const Tensor& cross, const Tensor& weights, const Tensor& product,
                   const Tensor& grad_mean, const Tensor& grad_squares) {
  const auto batch = cross.size(0), size = cross.size(1), rows = cross.size(2);
  check_shape(product, {batch, size + weights.size(2), rows}, "the kept product");
  check_shape(grad_mean, {batch, rows, weights.size(2)}, "the mean's gradient");
  check_shape(grad_squares, {batch, rows}, "the squares' gradient");
}

void check_features(const Tensor& left, const Tensor& right, int64_t batch, int64_t size) {
  TORCH_CHECK(left.dim() == 3 && right.dim() == 3, "deepwishart: features need three dimensions");
  check_shape(left, {batch, size, left.size(2)}, "features of the inducing points");
  check_shape(right, {batch, right.size(1), left.size(2)}, "features of the rows");
}

// Features that the kernel matrix of the rows was made of.
void check_kept_features(const Tensor& a, const Tensor& b, const Tensor& cross) {
  check_features(a, b, cross.size(0), cross.size(1));
  check_shape(b, {cross.size(0), cross.size(2), a.size(2)}, "features of the rows");
}

std::tuple<Tensor, Tensor, Tensor> condition_forward(const Tensor& projection, const Tensor& cross,
                                                     const Tensor& weights) {
  check_condition(projection, cross, weights);
  const auto batch = cross.size(0), inducing = cross.size(1), rows = cross.size(2);
  const auto width = weights.size(2), height = inducing + width;
  Tensor product = like(cross, {batch, height, rows}), mean = like(cross, {batch, rows, width}),
         squares = like(cross, {batch, rows});
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(cross.scalar_type(), "condition", [&] {
      Scratch<scalar_t> stacked(height * inducing);
      const scalar_t* k = cross.const_data_ptr<scalar_t>() + s * inducing * rows;
      scalar_t* own = product.data_ptr<scalar_t>() + s * height * rows;
      stack(projection.const_data_ptr<scalar_t>() + s * inducing * inducing,
            weights.const_data_ptr<scalar_t>() + s * inducing * width, stacked.data(), inducing,
            width);
      gemm<scalar_t>(false, false, height, rows, inducing, 1, stacked.data(), inducing, k, rows, 0,
                     own, rows);
      column_dots(own, kSquared<scalar_t> ? k : own, squares.data_ptr<scalar_t>() + s * rows,
                  inducing, rows);
      transpose_into(own + inducing * rows, mean.data_ptr<scalar_t>() + s * rows * width, width,
                     rows);
    });
  });
  return {mean, squares, product};
}

std::tuple<Tensor, Tensor, Tensor> condition_backward(const Tensor& projection, const Tensor& cross,
                                                      const Tensor& weights, const Tensor& product,
                                                      const Tensor& grad_mean,
                                                      const Tensor& grad_squares) {
  check_condition(projection, cross, weights);
  check_moments(cross, weights, product, grad_mean, grad_squares);
  const auto block = cross.size(1) * cross.size(2);
  Tensor grad_projection = at::empty_like(projection), grad_cross = at::empty_like(cross),
         grad_weights = at::empty_like(weights);
  for_each_sample(cross.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(cross.scalar_type(), "condition_backward", [&] {
      condition_gradients(projection, weights, cross, product, grad_mean, grad_squares,
                          grad_projection, grad_weights,
                          grad_cross.data_ptr<scalar_t>() + s * block, s);
    });
  });
  return {grad_projection, grad_cross, grad_weights};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_condition_forward(
    const Tensor& projection, const Tensor& left, const Tensor& right,
    const Tensor& log_height_scalar, const Tensor& log_lengthscale_scalar, const Tensor& weights) {
  const double log_height = log_height_scalar.item<double>(),
               log_lengthscale = log_lengthscale_scalar.item<double>();
  check_square(projection, "the projection");
  check_features(left, right, projection.size(0), projection.size(1));
  check_shape(weights,
              {projection.size(0), projection.size(1), last_size(weights, 3, "the weights")},
              "the weights");
  const auto batch = left.size(0), rows = right.size(1), width = weights.size(2);
  GaussianRows kept = empty_rows(left, right, weights);
  Tensor mean = like(left, {batch, rows, width}), squares = like(left, {batch, rows});
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(left.scalar_type(), "gaussian_condition", [&] {
      const auto inducing = left.size(1);
      Scratch<scalar_t> stacked((inducing + width) * inducing);
      stack(projection.const_data_ptr<scalar_t>() + s * inducing * inducing,
            weights.const_data_ptr<scalar_t>() + s * inducing * width, stacked.data(), inducing,
            width);
      const scalar_t* transposed =
          gaussian_rows<scalar_t>(stacked.data(), left, right, log_height, log_lengthscale, width,
                                  kept, s, squares.data_ptr<scalar_t>() + s * rows, false);
      transpose_into(transposed, mean.data_ptr<scalar_t>() + s * rows * width, width, rows);
    });
  });
  return {mean, squares, kept.cross, kept.product, kept.a, kept.b};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_condition_backward(
    const Tensor& projection, const Tensor& a, const Tensor& b, const Tensor& weights,
    const Tensor& cross, const Tensor& product, const Tensor& log_lengthscale_scalar,
    const Tensor& grad_mean, const Tensor& grad_squares) {
  const double log_lengthscale = log_lengthscale_scalar.item<double>();
  check_condition(projection, cross, weights);
  check_moments(cross, weights, product, grad_mean, grad_squares);
  check_kept_features(a, b, cross);
  const GaussianRows kept{cross, product, a, b};
  const GaussianGradients out = empty_gradients(projection, kept, weights);
  for_each_sample(a.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "gaussian_condition_backward", [&] {
      Scratch<scalar_t> grad_cross(cross.size(1) * cross.size(2));
      condition_gradients(projection, weights, cross, product, grad_mean, grad_squares,
                          out.projection, out.weights, grad_cross.data(), s);
      feature_gradients(grad_cross.data(), kept, log_lengthscale, out, s);
    });
  });
  const Tensor scalars = sum_samples(out.scalars);
  return {out.projection, out.left, out.right, scalars[0].clone(), scalars[1].clone(), out.weights};
}

// A sample of the rows instead of their moments: mean + sqrt(max(h - squares, floor)) * epsilon, with
// the deviations kept for the gradient.
template <typename T>
void sample_rows(const T* __restrict mean, const T* __restrict squares, const T* __restrict epsilon,
                 T height, T* __restrict deviation, T* __restrict out, int64_t rows, int64_t width) {
  const T floor = std::numeric_limits<T>::epsilon() * height;
  for (int64_t t = 0; t < rows; ++t) {
    const T variance = height - squares[t];
    deviation[t] = std::sqrt(variance < floor ? floor : variance);
    for (int64_t k = 0; k < width; ++k)
      out[t * width + k] = mean[k * rows + t] + deviation[t] * epsilon[t * width + k];
  }
}

// The gradient of squares; returns that of log h through the variance. Floored variances are
// constants.
template <typename T>
T sample_rows_backward(const T* __restrict grad, const T* __restrict epsilon,
                       const T* __restrict deviation, T height, T* __restrict grad_squares,
                       int64_t rows, int64_t width) {
  const T floor = std::sqrt(std::numeric_limits<T>::epsilon() * height);
  T total = 0;
  for (int64_t t = 0; t < rows; ++t) {
    T slope = 0;
    for (int64_t k = 0; k < width; ++k) slope += grad[t * width + k] * epsilon[t * width + k];
    grad_squares[t] = deviation[t] > floor ? T(-0.5) * slope / deviation[t] : T(0);
    total -= grad_squares[t];
  }
  return height * total;
}

// G is C = K_ii^-1 in double precision and H with C = H^T H in single (see kSquared); solved is C F.
// Neither needs a gradient: K_ii and F receive it directly.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_sample_forward(
    const Tensor& form, const Tensor& solved, const Tensor& left, const Tensor& right,
    const Tensor& log_height_scalar, const Tensor& log_lengthscale_scalar, const Tensor& epsilon) {
  const double log_height = log_height_scalar.item<double>(),
               log_lengthscale = log_lengthscale_scalar.item<double>();
  check_square(form, "the form");
  const auto batch = form.size(0), inducing = form.size(1);
  check_features(left, right, batch, inducing);
  check_shape(solved, {batch, inducing, last_size(solved, 3, "the solution")}, "the solution");
  const auto rows = right.size(1), width = solved.size(2);
  check_shape(epsilon, {batch, rows, width}, "the noise");
  GaussianRows kept = empty_rows(left, right, solved);
  Tensor deviation = like(left, {batch, rows}), out = at::empty_like(epsilon);
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(left.scalar_type(), "gaussian_sample", [&] {
      Scratch<scalar_t> scratch((inducing + width) * inducing + rows);
      scalar_t *stacked = scratch.data(), *squares = stacked + (inducing + width) * inducing;
      std::copy_n(form.const_data_ptr<scalar_t>() + s * inducing * inducing, inducing * inducing,
                  stacked);
      transpose_into(solved.const_data_ptr<scalar_t>() + s * inducing * width,
                     stacked + inducing * inducing, inducing, width);
      const scalar_t* mean =
          gaussian_rows<scalar_t>(stacked, left, right, log_height, log_lengthscale, width, kept, s,
                                  squares, !kSquared<scalar_t>);
      sample_rows<scalar_t>(mean, squares, epsilon.const_data_ptr<scalar_t>() + s * rows * width,
                            std::exp(static_cast<scalar_t>(log_height)),
                            deviation.data_ptr<scalar_t>() + s * rows,
                            out.data_ptr<scalar_t>() + s * rows * width, rows, width);
    });
  });
  return {out, kept.cross, kept.product, kept.a, kept.b, deviation};
}

// With B = C K_it and gm, gs the gradients of mean and squares:
//   gK_it = 2 B diag(gs) + C F gm^T,   gF = B gm,
//   gK_ii = -B diag(gs) B^T - (C F gF^T + gF (C F)^T) / 2 = -(gK_it B^T + gF (C F)^T) / 2.
// [gK_it; gm^T] B^T is one product; in single precision it is [gK_it; gm^T] (H K_it)^T H.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_sample_backward(
    const Tensor& form, const Tensor& solved, const Tensor& a, const Tensor& b, const Tensor& cross,
    const Tensor& product, const Tensor& epsilon, const Tensor& deviation,
    const Tensor& log_height_scalar, const Tensor& log_lengthscale_scalar, const Tensor& grad) {
  const double log_height = log_height_scalar.item<double>(),
               log_lengthscale = log_lengthscale_scalar.item<double>();
  check_condition(form, cross, solved);
  check_kept_features(a, b, cross);
  const auto inducing = a.size(1), rows = b.size(1), width = solved.size(2);
  const auto height = inducing + width, all = inducing * inducing;
  check_moments(cross, solved, product, grad, deviation);
  check_shape(epsilon, grad.sizes(), "the noise");
  const GaussianRows kept{cross, product, a, b};
  const GaussianGradients out = empty_gradients(form, kept, solved);
  for_each_sample(a.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "gaussian_sample_backward", [&] {
      Scratch<scalar_t> scratch(height * rows + 2 * height * inducing + rows);
      scalar_t *above = scratch.data(), *below = above + inducing * rows;
      scalar_t *products = above + height * rows, *rotated = products + height * inducing;
      scalar_t* grad_squares = rotated + height * inducing;
      const scalar_t* own = grad.const_data_ptr<scalar_t>() + s * rows * width;
      const scalar_t* G = form.const_data_ptr<scalar_t>() + s * all;
      const scalar_t* CF = solved.const_data_ptr<scalar_t>() + s * inducing * width;
      const scalar_t* top = product.const_data_ptr<scalar_t>() + s * height * rows;
      scalar_t* grad_kernel = out.projection.data_ptr<scalar_t>() + s * all;
      scalar_t* grad_root = out.weights.data_ptr<scalar_t>() + s * inducing * width;

      out.scalars.data_ptr<scalar_t>()[2 * s] = sample_rows_backward<scalar_t>(
          own, epsilon.const_data_ptr<scalar_t>() + s * rows * width,
          deviation.const_data_ptr<scalar_t>() + s * rows,
          std::exp(static_cast<scalar_t>(log_height)), grad_squares, rows, width);
      transpose_into(own, below, rows, width);
      if constexpr (kSquared<scalar_t>) {
        scale_columns(top, grad_squares, scalar_t(2), above, inducing, rows);
        gemm<scalar_t>(false, false, inducing, rows, width, 1, CF, width, below, rows, 1, above,
                       rows);
      } else {  // [H; (C F)^T]^T [2 H K_it diag(gs); gm^T]
        Scratch<scalar_t> stacks(height * inducing + height * rows);
        scalar_t *left = stacks.data(), *right = left + height * inducing;
        std::copy_n(G, all, left);
        transpose_into(CF, left + all, inducing, width);
        scale_columns(top, grad_squares, scalar_t(2), right, inducing, rows);
        std::copy_n(below, width * rows, right + inducing * rows);
        trapezoidal_product(true, left, right, above, height, inducing, rows);
      }
      // In double precision gK_ii is symmetric from here on: no need for its upper right quarter.
      const int64_t half = kSquared<scalar_t> ? inducing / 2 : 0;
      gemm<scalar_t>(false, true, half, half, rows, 1, above, rows, top, rows, 0, products,
                     inducing);
      gemm<scalar_t>(false, true, height - half, inducing, rows, 1, above + half * rows, rows, top,
                     rows, 0, products + half * inducing, inducing);
      if (!kSquared<scalar_t>) {
        gemm<scalar_t>(false, false, height, inducing, inducing, 1, products, inducing, G, inducing,
                       0, rotated, inducing);
        std::swap(products, rotated);
      }
      transpose_into(products + all, grad_root, width, inducing);
      for (int64_t i = 0; i < all; ++i) grad_kernel[i] = scalar_t(-0.5) * products[i];
      gemm<scalar_t>(false, true, inducing, inducing, width, scalar_t(-0.5), grad_root, width, CF,
                     width, 1, grad_kernel, inducing);
      for (int64_t i = 0; i < half; ++i)
        for (int64_t j = half; j < inducing; ++j)
          grad_kernel[i * inducing + j] = grad_kernel[j * inducing + i];
      feature_gradients(above, kept, log_lengthscale, out, s);
    });
  });
  const Tensor scalars = sum_samples(out.scalars);
  return {out.projection, out.weights, out.left, out.right, scalars[0].clone(), scalars[1].clone()};
}

// K = h exp(-|x_i - x_j|^2 / 2 l^2), exactly symmetric, with h (1 + jitter) on the diagonal.
std::tuple<Tensor, Tensor> gaussian_square_forward(const Tensor& features,
                                                   const Tensor& log_height_scalar,
                                                   const Tensor& log_lengthscale_scalar,
                                                   double jitter) {
  const double log_height = log_height_scalar.item<double>(),
               log_lengthscale = log_lengthscale_scalar.item<double>();
  last_size(features, 3, "a tensor of features");
  check_shape(features, features.sizes(), "a tensor of features");
  const auto batch = features.size(0), size = features.size(1), width = features.size(2);
  Tensor kernel = like(features, {batch, size, size}), scaled = at::empty_like(features);
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(features.scalar_type(), "gaussian_square", [&] {
      Scratch<scalar_t> scratch(size + width);
      scalar_t *norms = scratch.data(), *centre = norms + size;
      scalar_t* k = kernel.data_ptr<scalar_t>() + s * size * size;
      scalar_t* a = scaled.data_ptr<scalar_t>() + s * size * width;
      const scalar_t* x = features.const_data_ptr<scalar_t>() + s * size * width;
      mean_row(x, centre, size, width);
      centre_and_scale(x, centre, static_cast<scalar_t>(std::exp(-log_lengthscale)), a, size,
                       width);
      half_squared_norms(a, norms, size, width);
      gemm<scalar_t>(false, true, size, size, width, 1, a, width, a, width, 0, k, size);
      gaussian_in_place(k, norms, norms, static_cast<scalar_t>(log_height), size, size);
      const scalar_t own_height =
          std::exp(static_cast<scalar_t>(log_height)) * static_cast<scalar_t>(1.0 + jitter);
      for (int64_t i = 0; i < size; ++i) {
        for (int64_t j = 0; j < i; ++j) k[j * size + i] = k[i * size + j];
        k[i * size + i] = own_height;
      }
    });
  });
  return {kernel, scaled};
}

std::tuple<Tensor, Tensor, Tensor> gaussian_square_backward(const Tensor& scaled,
                                                            const Tensor& kernel,
                                                            const Tensor& log_lengthscale_scalar,
                                                            const Tensor& grad_kernel) {
  const double log_lengthscale = log_lengthscale_scalar.item<double>();
  const auto width = last_size(scaled, 3, "a tensor of features");
  const auto batch = scaled.size(0), size = scaled.size(1);
  check_shape(scaled, scaled.sizes(), "a tensor of features");
  check_shape(kernel, {batch, size, size}, "the kernel matrix");
  check_shape(grad_kernel, {batch, size, size}, "the kernel matrix's gradient");
  Tensor grad_features = at::empty_like(scaled), grad_scalars = like(scaled, {batch, 2});
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(scaled.scalar_type(), "gaussian_square_backward", [&] {
      Scratch<scalar_t> scratch(size * size + size);
      scalar_t *both = scratch.data(), *row_sums = both + size * size;
      const scalar_t* k = kernel.const_data_ptr<scalar_t>() + s * size * size;
      const scalar_t* g = grad_kernel.const_data_ptr<scalar_t>() + s * size * size;
      const scalar_t* a = scaled.const_data_ptr<scalar_t>() + s * size * width;
      scalar_t* out = grad_features.data_ptr<scalar_t>() + s * size * width;
      scalar_t total = 0;
      for (int64_t i = 0; i < size; ++i) {
        scalar_t row = 0;
        for (int64_t j = 0; j < size; ++j) {
          const scalar_t value = (g[i * size + j] + g[j * size + i]) * k[i * size + j];
          both[i * size + j] = value;
          row += value;
        }
        row_sums[i] = row;
        total += row;
      }
      gemm<scalar_t>(false, false, size, width, size, 1, both, size, a, width, 0, out, width);
      subtract_scaled_rows(out, row_sums, a, size, width);
      scalar_t* scalars = grad_scalars.data_ptr<scalar_t>() + 2 * s;
      scalars[0] = scalar_t(0.5) * total;
      scalars[1] = -scale_and_dot(out, a, static_cast<scalar_t>(std::exp(-log_lengthscale)),
                                  size * width);
    });
  });
  const Tensor scalars = sum_samples(grad_scalars);
  return {grad_features, scalars[0].clone(), scalars[1].clone()};
}

}  // namespace
