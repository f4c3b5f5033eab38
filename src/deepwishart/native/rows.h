// Rows of a layer given its inducing points; kernel matrices.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <type_traits>

#include "loops.h"
#include "support.h"

namespace {

using Optional = const std::optional<Tensor>&;

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

void check_features(const Tensor& left, const Tensor& right, int64_t batch, int64_t size) {
  TORCH_CHECK(left.dim() == 3 && right.dim() == 3, "deepwishart: features need three dimensions");
  check_shape(left, {batch, size, left.size(2)}, "features of the inducing points");
  check_shape(right, {batch, right.size(1), left.size(2)}, "features of the rows");
}

void check_cross(const Tensor& cross, int64_t batch, int64_t size) {
  const char* name = "the kernel matrix of the rows";
  check_shape(cross, {batch, size, last_size(cross, 3, name)}, name);
}

// What one thread deals with: the rows of a sample or, where all samples share one, some of its rows.
// Blocks of columns t are stored one after the other then, each with rows of its own length.
struct Part {
  int64_t sample, begin, rows;

  // Where it begins in a tensor that has so many entries for every row of a sample.
  template <typename T>
  T* in(const Tensor& tensor, int64_t entries) const {
    return into<T>(tensor, sample) + begin * entries;
  }
};

// How many parts there are does not depend on threads: sums over parts have one order.
struct Parts {
  int64_t rows, count;
  bool split;

  Parts(int64_t batch, int64_t rows, bool may_split) : rows(rows), split(may_split && batch == 1) {
    count = split ? std::clamp<int64_t>(rows / 200, 1, 16) : batch;
  }

  Part operator[](int64_t i) const {
    if (!split) return {i, 0, rows};
    const int64_t begin = i * rows / count;
    return {0, begin, (i + 1) * rows / count - begin};
  }

  // Gradients of what the parts share are sums over them.
  Tensor collect(const Tensor& found) const { return split ? sum_samples(found).unsqueeze(0) : found; }
};

// K_it of the rows: as it was given, or h exp(-|x_i - y_t|^2 / 2 l^2), formed where it is consumed
// and kept for the gradient with the scaled features a and b that it is made of.
struct Cross {
  Tensor matrix, kept, a, b, left, right;
  double log_height = 0, log_lengthscale = 0;

  Cross(Optional given, Optional x, Optional y, Optional height, Optional lengthscale, int64_t batch,
        int64_t size) {
    if (given) {
      check_cross(*given, batch, size);
      matrix = *given;
      for (Tensor* none : {&kept, &a, &b}) *none = like(matrix, {0});
      return;
    }
    TORCH_CHECK(x && y && height && lengthscale,
                "deepwishart: rows need their kernel matrix, or features and its scales");
    check_features(*x, *y, batch, size);
    left = *x;
    right = *y;
    log_height = height->item<double>();
    log_lengthscale = lengthscale->item<double>();
    matrix = kept = like(left, {batch, size, right.size(1)});
    a = at::empty_like(left);
    b = at::empty_like(right);
  }

  // Features are centred first, which changes no distance and limits cancellation.
  template <typename T>
  const T* form(const Part& part) const {
    const int64_t s = part.sample, rows = part.rows;
    if (!left.defined()) return from<T>(matrix, s);
    const auto inducing = left.size(1), features = left.size(2);
    Scratch<T> scratch(inducing + rows + features + inducing * features);
    T *norms = scratch.data(), *centre = norms + inducing + rows;
    T *x = part.begin == 0 ? into<T>(a, s) : centre + features;  // the first part keeps it for all
    T *y = part.in<T>(b, features), *cross = part.in<T>(matrix, inducing);
    const T factor = static_cast<T>(std::exp(-log_lengthscale));
    mean_row(from<T>(left, s), centre, inducing, features);
    centre_and_scale(from<T>(left, s), centre, factor, x, inducing, features);
    centre_and_scale(part.in<T>(right, features), centre, factor, y, rows, features);
    half_squared_norms(x, norms, inducing, features);
    half_squared_norms(y, norms + inducing, rows, features);
    gemm<T>(false, true, inducing, rows, features, 1, x, features, y, features, 0, cross, rows);
    gaussian_in_place(cross, norms, norms + inducing, static_cast<T>(log_height), inducing, rows);
    return cross;
  }

  // Rows are split only where K_it is formed here.
  Parts parts() const { return {matrix.size(0), matrix.size(2), left.defined()}; }
};

// The gradient of K_it, or of what it was made of: features, log h and log l.
struct CrossGradient {
  Parts parts;
  Tensor cross, left, right, scalars, matrix, a, b;
  double log_lengthscale = 0;

  CrossGradient(const Tensor& kept, Optional kept_a, Optional kept_b, Optional lengthscale,
                bool may_split = false)
      : parts(kept.size(0), kept.size(2), may_split && kept_a),
        scalars(at::zeros({parts.count, 2}, kept.options())),
        matrix(kept) {
    if (!kept_a) {
      cross = at::empty_like(kept);
      for (Tensor* none : {&left, &right}) *none = like(kept, {0});
      return;
    }
    TORCH_CHECK(kept_b && lengthscale, "deepwishart: features of the rows are missing");
    check_features(*kept_a, *kept_b, kept.size(0), kept.size(1));
    check_shape(*kept_b, {kept.size(0), kept.size(2), kept_a->size(2)}, "features of the rows");
    a = *kept_a;
    b = *kept_b;
    log_lengthscale = lengthscale->item<double>();
    cross = like(kept, {0});
    left = like(a, {parts.count, a.size(1), a.size(2)});
    right = at::empty_like(b);
  }

  // Has the gradient of K_it written into memory of its own, and sends it on to the features.
  template <typename T, typename Function>
  void receive(int64_t i, const Function& write) const {
    if (!a.defined()) return write(into<T>(cross, i));
    Scratch<T> scratch(matrix.size(1) * parts[i].rows);
    write(scratch.data());
    send_on(scratch.data(), i);
  }

  // Overwrites the gradient of K_it. With E the exponent and dE = gK * K: gradients of the scaled
  // features are those of a product, less each row times the sum of its dE; the gradient of log h is
  // the sum of all dE; E - log h is homogeneous of degree two, so the gradient of log l is minus the
  // sum of features times theirs.
  template <typename T>
  void send_on(T* grad_cross, int64_t index) const {
    const Part part = parts[index];
    const auto inducing = a.size(1), rows = part.rows, features = a.size(2);
    Scratch<T> scratch(inducing + rows + rows * features);
    T *row_sums = scratch.data(), *column_sums = row_sums + inducing, *wide = column_sums + rows;
    T *grad_a = into<T>(left, index), *total = into<T>(scalars, index);
    T* grad_b = part.in<T>(right, features);
    const T *x = from<T>(a, part.sample), *y = part.in<T>(b, features);
    multiply_and_sum(grad_cross, part.in<T>(matrix, inducing), row_sums, column_sums, inducing, rows);
    gemm<T>(false, false, inducing, features, rows, 1, grad_cross, rows, y, features, 0, grad_a,
            features);
    gemm<T>(true, false, features, rows, inducing, 1, x, features, grad_cross, rows, 0, wide, rows);
    transpose_into(wide, grad_b, features, rows);
    subtract_scaled_rows(grad_a, row_sums, x, inducing, features);
    subtract_scaled_rows(grad_b, column_sums, y, rows, features);
    const T factor = static_cast<T>(std::exp(-log_lengthscale));
    for (int64_t i = 0; i < inducing; ++i) total[0] += row_sums[i];
    total[1] -= scale_and_dot(grad_a, x, factor, inducing * features);
    total[1] -= scale_and_dot(grad_b, y, factor, rows * features);
  }

  Tensor scalar(int64_t index) const { return sum_samples(scalars)[index].clone(); }
};

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

// Gradients of one sample of condition, given those of mean and squares, gm and gs.
//
// Squared form: gC = K diag(gs) K^T and (K gm)^T are one product; gK = 2 C K diag(gs) + H^T w gm^T;
// gH = 2 H gC + w (K gm)^T. Otherwise, with gA = w gm^T + 2 A diag(gs): gH = gA K^T, where
// [2 A diag(gs); gm^T] K^T is one product, and gK = H^T gA = [H; w^T H]^T [2 A diag(gs); gm^T].
// Either way gw = H K gm.
template <typename T>
void condition_gradients(const T* H, const T* w, const T* cross, const T* product,
                         const T* grad_mean, const T* grad_squares, T* grad_H, T* grad_w,
                         T* grad_cross, int64_t inducing, int64_t rows, int64_t width) {
  const auto height = inducing + width;
  Scratch<T> scratch(height * rows + 2 * height * inducing);
  T *above = scratch.data(), *products = above + height * rows;
  T *stacked = products + height * inducing;
  T *below = above + inducing * rows, *solved = stacked + inducing * inducing;
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
  gemm<T>(false, true, inducing, width, inducing, 1, H, inducing, narrow, inducing, 0, grad_w,
          width);
}

void check_weights(const Tensor& projection, const Tensor& weights) {
  check_square(projection, "the projection");
  check_shape(weights,
              {projection.size(0), projection.size(1), last_size(weights, 3, "the weights")},
              "the weights");
}

// What gradients need: the kernel matrix, the kept product, and the incoming gradients.
void check_moments(const Tensor& projection, const Tensor& weights, const Tensor& cross,
                   const Tensor& product, const Tensor& grad_mean, const Tensor& grad_squares) {
  check_weights(projection, weights);
  const auto batch = projection.size(0), size = projection.size(1), width = weights.size(2);
  check_cross(cross, batch, size);
  check_shape(product, {batch, size + width, cross.size(2)}, "the kept product");
  check_shape(grad_mean, {batch, cross.size(2), width}, "the mean's gradient");
  check_shape(grad_squares, {batch, cross.size(2)}, "the squares' gradient");
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> condition_forward(
    const Tensor& projection, const Tensor& weights, Optional given, Optional left, Optional right,
    Optional log_height, Optional log_lengthscale) {
  check_weights(projection, weights);
  const auto batch = projection.size(0), inducing = projection.size(1), width = weights.size(2);
  const Cross cross(given, left, right, log_height, log_lengthscale, batch, inducing);
  const auto height = inducing + width, rows = cross.matrix.size(2);
  Tensor product = like(projection, {batch, height, rows}),
         mean = like(projection, {batch, rows, width}), squares = like(projection, {batch, rows});
  const Parts parts = cross.parts();
  for_each(projection, parts.count, [&]<typename T>(T, int64_t i) {
    const Part part = parts[i];
    const int64_t s = part.sample, columns = part.rows;
    Scratch<T> stacked(height * inducing);
    T* own = part.in<T>(product, height);
    stack(from<T>(projection, s), from<T>(weights, s), stacked.data(), inducing, width);
    const T* k = cross.form<T>(part);
    gemm<T>(false, false, height, columns, inducing, 1, stacked.data(), inducing, k, columns, 0, own,
            columns);
    column_dots(own, kSquared<T> ? k : own, part.in<T>(squares, 1), inducing, columns);
    transpose_into(own + inducing * columns, part.in<T>(mean, width), width, columns);
  });
  return {mean, squares, product, cross.kept, cross.a, cross.b};
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> condition_backward(
    const Tensor& projection, const Tensor& weights, const Tensor& cross, const Tensor& product,
    Optional a, Optional b, Optional log_lengthscale, const Tensor& grad_mean,
    const Tensor& grad_squares) {
  check_moments(projection, weights, cross, product, grad_mean, grad_squares);
  const CrossGradient out(cross, a, b, log_lengthscale, true);
  const auto inducing = cross.size(1), width = weights.size(2);
  Tensor grad_projection = like(projection, {out.parts.count, inducing, inducing}),
         grad_weights = like(weights, {out.parts.count, inducing, width});
  for_each(projection, out.parts.count, [&]<typename T>(T, int64_t i) {
    const Part part = out.parts[i];
    const int64_t s = part.sample;
    out.receive<T>(i, [&](T* grad_cross) {
      condition_gradients<T>(from<T>(projection, s), from<T>(weights, s), part.in<T>(cross, inducing),
                             part.in<T>(product, inducing + width), part.in<T>(grad_mean, width),
                             part.in<T>(grad_squares, 1), into<T>(grad_projection, i),
                             into<T>(grad_weights, i), grad_cross, inducing, part.rows, width);
    });
  });
  return {out.parts.collect(grad_projection),
          out.parts.collect(grad_weights),
          out.cross,
          out.parts.collect(out.left),
          out.right,
          out.scalar(0),
          out.scalar(1)};
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
    const Tensor& log_height, const Tensor& log_lengthscale, const Tensor& epsilon) {
  check_weights(form, solved);
  const auto batch = form.size(0), inducing = form.size(1), width = solved.size(2);
  const Cross cross({}, left, right, log_height, log_lengthscale, batch, inducing);
  const auto rows = right.size(1), height = inducing + width;
  check_shape(epsilon, {batch, rows, width}, "the noise");
  Tensor product = like(left, {batch, height, rows}), deviation = like(left, {batch, rows}),
         out = at::empty_like(epsilon);
  for_each_sample(left, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(height * inducing + rows);
    T *stacked = scratch.data(), *squares = stacked + height * inducing, *own = into<T>(product, s);
    std::copy_n(from<T>(form, s), inducing * inducing, stacked);
    transpose_into(from<T>(solved, s), stacked + inducing * inducing, inducing, width);
    const T* k = cross.form<T>({s, 0, rows});
    if (kSquared<T>)
      gemm<T>(false, false, height, rows, inducing, 1, stacked, inducing, k, rows, 0, own, rows);
    else
      trapezoidal_product(false, stacked, k, own, height, inducing, rows);
    column_dots(own, kSquared<T> ? k : own, squares, inducing, rows);
    sample_rows<T>(own + inducing * rows, squares, from<T>(epsilon, s),
                   std::exp(static_cast<T>(cross.log_height)), into<T>(deviation, s),
                   into<T>(out, s), rows, width);
  });
  return {out, cross.kept, product, cross.a, cross.b, deviation};
}

// With B = C K_it and gm, gs the gradients of mean and squares:
//   gK_it = 2 B diag(gs) + C F gm^T,   gF = B gm,
//   gK_ii = -B diag(gs) B^T - (C F gF^T + gF (C F)^T) / 2 = -(gK_it B^T + gF (C F)^T) / 2.
// [gK_it; gm^T] B^T is one product. In single precision B is H^T (H K_it).
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_sample_backward(
    const Tensor& form, const Tensor& solved, const Tensor& a, const Tensor& b, const Tensor& cross,
    const Tensor& product, const Tensor& epsilon, const Tensor& deviation, const Tensor& log_height,
    const Tensor& log_lengthscale, const Tensor& grad) {
  check_moments(form, solved, cross, product, grad, deviation);
  check_shape(epsilon, grad.sizes(), "the noise");
  const auto inducing = a.size(1), rows = cross.size(2), width = solved.size(2);
  const auto height = inducing + width, all = inducing * inducing;
  const double log_h = log_height.item<double>();
  const CrossGradient out(cross, a, b, log_lengthscale);
  Tensor grad_form = at::empty_like(form), grad_solved = at::empty_like(solved);
  for_each_sample(a, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(height * (rows + inducing) + rows + (kSquared<T> ? 0 : inducing * rows));
    T *above = scratch.data(), *below = above + inducing * rows;
    T *products = above + height * rows, *grad_squares = products + height * inducing;
    T* solved_cross = grad_squares + rows;
    const T *CF = from<T>(solved, s), *top = from<T>(product, s);
    T *grad_kernel = into<T>(grad_form, s), *grad_root = into<T>(grad_solved, s);

    into<T>(out.scalars, s)[0] = sample_rows_backward<T>(
        from<T>(grad, s), from<T>(epsilon, s), from<T>(deviation, s),
        std::exp(static_cast<T>(log_h)), grad_squares, rows, width);
    transpose_into(from<T>(grad, s), below, rows, width);
    const T* B = top;
    if (!kSquared<T>) {
      trapezoidal_product(true, from<T>(form, s), top, solved_cross, inducing, inducing, rows);
      B = solved_cross;
    }
    scale_columns(B, grad_squares, T(2), above, inducing, rows);
    gemm<T>(false, false, inducing, rows, width, 1, CF, width, below, rows, 1, above, rows);
    // gK_ii is symmetric from here on: no need for its upper right quarter.
    const int64_t half = inducing / 2;
    gemm<T>(false, true, half, half, rows, 1, above, rows, B, rows, 0, products, inducing);
    gemm<T>(false, true, height - half, inducing, rows, 1, above + half * rows, rows, B, rows, 0,
            products + half * inducing, inducing);
    transpose_into(products + all, grad_root, width, inducing);
    for (int64_t i = 0; i < all; ++i) grad_kernel[i] = T(-0.5) * products[i];
    gemm<T>(false, true, inducing, inducing, width, T(-0.5), grad_root, width, CF, width, 1,
            grad_kernel, inducing);
    for (int64_t i = 0; i < half; ++i)
      for (int64_t j = half; j < inducing; ++j)
        grad_kernel[i * inducing + j] = grad_kernel[j * inducing + i];
    out.send_on(above, s);
  });
  return {grad_form, grad_solved, out.left, out.right, out.scalar(0), out.scalar(1)};
}

// K = h exp(-|x_i - x_j|^2 / 2 l^2), exactly symmetric, with h (1 + jitter) on the diagonal.
std::tuple<Tensor, Tensor> gaussian_square_forward(const Tensor& features, const Tensor& log_height,
                                                   const Tensor& log_lengthscale, double jitter) {
  const double log_h = log_height.item<double>(), log_l = log_lengthscale.item<double>();
  const auto width = last_size(features, 3, "a tensor of features"), size = features.size(1);
  check_shape(features, features.sizes(), "a tensor of features");
  Tensor kernel = like(features, {features.size(0), size, size}), scaled = at::empty_like(features);
  for_each_sample(features, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(size + width);
    T *norms = scratch.data(), *centre = norms + size;
    T *k = into<T>(kernel, s), *a = into<T>(scaled, s);
    const T* x = from<T>(features, s);
    mean_row(x, centre, size, width);
    centre_and_scale(x, centre, static_cast<T>(std::exp(-log_l)), a, size, width);
    half_squared_norms(a, norms, size, width);
    gemm<T>(false, true, size, size, width, 1, a, width, a, width, 0, k, size);
    gaussian_in_place(k, norms, norms, static_cast<T>(log_h), size, size);
    const T own_height = std::exp(static_cast<T>(log_h)) * static_cast<T>(1.0 + jitter);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t j = 0; j < i; ++j) k[j * size + i] = k[i * size + j];
      k[i * size + i] = own_height;
    }
  });
  return {kernel, scaled};
}

std::tuple<Tensor, Tensor, Tensor> gaussian_square_backward(const Tensor& scaled,
                                                            const Tensor& kernel,
                                                            const Tensor& log_lengthscale,
                                                            const Tensor& grad_kernel) {
  const double log_l = log_lengthscale.item<double>();
  const auto width = last_size(scaled, 3, "a tensor of features");
  const auto batch = scaled.size(0), size = scaled.size(1);
  check_shape(scaled, scaled.sizes(), "a tensor of features");
  check_shape(kernel, {batch, size, size}, "the kernel matrix");
  check_shape(grad_kernel, {batch, size, size}, "the kernel matrix's gradient");
  Tensor grad_features = at::empty_like(scaled), grad_scalars = like(scaled, {batch, 2});
  for_each_sample(scaled, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(size * size + size);
    T *both = scratch.data(), *row_sums = both + size * size, *out = into<T>(grad_features, s);
    const T *k = from<T>(kernel, s), *g = from<T>(grad_kernel, s), *a = from<T>(scaled, s);
    T total = 0;
    for (int64_t i = 0; i < size; ++i) {
      T row = 0;
      for (int64_t j = 0; j < size; ++j) {
        const T value = (g[i * size + j] + g[j * size + i]) * k[i * size + j];
        both[i * size + j] = value;
        row += value;
      }
      row_sums[i] = row;
      total += row;
    }
    gemm<T>(false, false, size, width, size, 1, both, size, a, width, 0, out, width);
    subtract_scaled_rows(out, row_sums, a, size, width);
    T* scalars = into<T>(grad_scalars, s);
    scalars[0] = T(0.5) * total;
    scalars[1] = -scale_and_dot(out, a, static_cast<T>(std::exp(-log_l)), size * width);
  });
  const Tensor scalars = sum_samples(grad_scalars);
  return {grad_features, scalars[0].clone(), scalars[1].clone()};
}

}  // namespace
