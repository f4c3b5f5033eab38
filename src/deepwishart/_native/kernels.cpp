// The hot loops of deepwishart, one posterior sample at a time, threads over samples.
//
// Each function does for a whole batch what the plain PyTorch code in _fused.py does, with the
// same formulas; derivations are given there. Working sample by sample keeps a P x N block in a
// core's own cache between the operations that touch it, which a batched operation cannot.

#include <ATen/ATen.h>
#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>

// The BLAS that PyTorch brings, where it shows these names.
extern "C" {
void dgemm_(const char*, const char*, const int*, const int*, const int*, const double*,
            const double*, const int*, const double*, const int*, const double*, double*,
            const int*) __attribute__((weak));
void sgemm_(const char*, const char*, const int*, const int*, const int*, const float*,
            const float*, const int*, const float*, const int*, const float*, float*, const int*)
    __attribute__((weak));
}

namespace {

using at::Tensor;

template <typename Function>
void for_each_sample(int64_t batch, const Function& function) {
  at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    at::NoGradGuard no_grad;  // grad mode is thread-local
    for (int64_t sample = begin; sample < end; ++sample) function(sample);
  });
}

// exp(x) for x far below overflow: 2^k * exp(r), |r| <= log(2)/2, by a Taylor polynomial. Branch-free
// so that the compiler vectorises it; below one unit in the last place of error beyond rounding.
inline double fast_exp(double x) {
  constexpr double shifter = 0x1.8p52;
  const double bounded = x < -708.0 ? -708.0 : x;
  const double shifted = bounded * 1.4426950408889634074 + shifter;
  const double k = shifted - shifter;
  double r = bounded - k * 0x1.62e42fefa0000p-1;
  r -= k * 0x1.cf79abc9e3b3ap-40;
  double p = 1.0 / 6227020800.0;
  p = p * r + 1.0 / 479001600.0;
  p = p * r + 1.0 / 39916800.0;
  p = p * r + 1.0 / 3628800.0;
  p = p * r + 1.0 / 362880.0;
  p = p * r + 1.0 / 40320.0;
  p = p * r + 1.0 / 5040.0;
  p = p * r + 1.0 / 720.0;
  p = p * r + 1.0 / 120.0;
  p = p * r + 1.0 / 24.0;
  p = p * r + 1.0 / 6.0;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  int64_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 1023) << 52;  // the low bits of the shifted number are k
  double power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -708.0 ? 0.0 : p * power;
}

inline float fast_exp(float x) {
  constexpr float shifter = 0x1.8p23f;
  const float bounded = x < -87.0f ? -87.0f : x;
  const float shifted = bounded * 1.44269504f + shifter;
  const float k = shifted - shifter;
  float r = bounded - k * 0x1.62e400p-1f;
  r -= k * 0x1.7f7d1cp-20f;
  float p = 1.0f / 5040.0f;
  p = p * r + 1.0f / 720.0f;
  p = p * r + 1.0f / 120.0f;
  p = p * r + 1.0f / 24.0f;
  p = p * r + 1.0f / 6.0f;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  int32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits + 127) << 23;
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? 0.0f : p * power;
}

template <typename T>
void half_squared_norms(const T* __restrict rows, T* __restrict norms, int64_t count,
                        int64_t width) {
  for (int64_t i = 0; i < count; ++i) {
    T total = 0;
    for (int64_t k = 0; k < width; ++k) total += rows[i * width + k] * rows[i * width + k];
    norms[i] = T(0.5) * total;
  }
}

// products_ij -> exp(min(products_ij - a_i - b_j, 0) + log_height), in place.
template <typename T>
void gaussian_in_place(T* __restrict products, const T* __restrict a, const T* __restrict b,
                       T log_height, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i) {
    T* __restrict row = products + i * columns;
    const T own = a[i];
    for (int64_t j = 0; j < columns; ++j) {
      const T exponent = row[j] - own - b[j];
      // Written so that a NaN stays a NaN.
      row[j] = fast_exp((exponent > T(0) ? T(0) : exponent) + log_height);
    }
  }
}

// sums_j = sum_i a_ij b_ij
template <typename T>
void column_dots(const T* a, const T* b, T* __restrict sums, int64_t rows, int64_t columns) {
  std::fill(sums, sums + columns, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    const T *x = a + i * columns, *y = b + i * columns;
    for (int64_t j = 0; j < columns; ++j) sums[j] += x[j] * y[j];
  }
}

// out = factor * block * diag(scale)
template <typename T>
void scale_columns(const T* __restrict block, const T* __restrict scale, T factor,
                   T* __restrict out, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[i * columns + j] = factor * block[i * columns + j] * scale[j];
}

template <typename T>
void transpose_into(const T* __restrict block, T* __restrict out, int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) out[j * rows + i] = block[i * columns + j];
}

// gradient *= block in place, with its row and column sums.
template <typename T>
void multiply_and_sum(T* __restrict gradient, const T* __restrict block, T* __restrict row_sums,
                      T* __restrict column_sums, int64_t rows, int64_t columns) {
  std::fill(column_sums, column_sums + columns, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    T* __restrict g = gradient + i * columns;
    const T* __restrict k = block + i * columns;
    T total = 0;
#pragma omp simd reduction(+ : total)
    for (int64_t j = 0; j < columns; ++j) {
      const T value = g[j] * k[j];
      g[j] = value;
      column_sums[j] += value;
      total += value;
    }
    row_sums[i] = total;
  }
}

// out_ik -= sums_i * rows_ik
template <typename T>
void subtract_scaled_rows(T* __restrict out, const T* __restrict sums, const T* __restrict rows,
                          int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k) out[i * width + k] -= sums[i] * rows[i * width + k];
}

// out = (rows - centre) * factor
template <typename T>
void centre_and_scale(const T* __restrict rows, const T* __restrict centre, T factor,
                      T* __restrict out, int64_t count, int64_t width) {
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k)
      out[i * width + k] = (rows[i * width + k] - centre[k]) * factor;
}

template <typename T>
void mean_row(const T* __restrict rows, T* __restrict mean, int64_t count, int64_t width) {
  std::fill(mean, mean + width, T(0));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < width; ++k) mean[k] += rows[i * width + k];
  for (int64_t k = 0; k < width; ++k) mean[k] /= static_cast<T>(count);
}

// values *= factor, returning the sum of values * other taken before.
template <typename T>
T scale_and_dot(T* __restrict values, const T* __restrict other, T factor, int64_t count) {
  T total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < count; ++i) {
    total += values[i] * other[i];
    values[i] *= factor;
  }
  return total;
}

Tensor like(const Tensor& reference, at::IntArrayRef shape) {
  return at::empty(shape, reference.options());
}

// The sum over the first dimension, by which gradients of what all samples share are collected.
Tensor sum_samples(const Tensor& parts) {
  const int64_t batch = parts.size(0), count = parts.numel() / batch;
  if (batch == 1) return parts[0];
  Tensor out = like(parts, parts.sizes().slice(1));
  at::parallel_for(0, count, 2048, [&](int64_t begin, int64_t end) {
    AT_DISPATCH_FLOATING_TYPES(parts.scalar_type(), "sum_samples", [&] {
      const scalar_t* from = parts.const_data_ptr<scalar_t>();
      scalar_t* to = out.data_ptr<scalar_t>();
      std::copy(from + begin, from + end, to + begin);
      for (int64_t s = 1; s < batch; ++s)
        for (int64_t i = begin; i < end; ++i) to[i] += from[s * count + i];
    });
  });
  return out;
}

// Scratch memory that nobody clears.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t count) : memory_(new T[count]) {}
  T* data() const { return memory_.get(); }

 private:
  std::unique_ptr<T[]> memory_;
};

template <typename T>
constexpr at::ScalarType scalar_type_of = c10::CppTypeToScalarType<T>::value;

// C = alpha op(A) op(B) + beta C for row-major blocks, op(A) being m x k and op(B) k x n. A tensor
// operation costs as much as a small product does, so BLAS is called directly where it can be.
template <typename T>
void call_gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t stride_a, const T* b, int64_t stride_b, T beta, T* c, int64_t stride_c) {
  if (m == 0 || n == 0) return;
  const char flag_a = transpose_a ? 'T' : 'N', flag_b = transpose_b ? 'T' : 'N';
  const int sizes[] = {int(n), int(m), int(k)};
  const int strides[] = {int(stride_b), int(stride_a), int(stride_c)};
  if constexpr (std::is_same_v<T, double>) {
    if (dgemm_ != nullptr)
      return dgemm_(&flag_b, &flag_a, &sizes[0], &sizes[1], &sizes[2], &alpha, b, &strides[0], a,
                    &strides[1], &beta, c, &strides[2]);
  } else {
    if (sgemm_ != nullptr)
      return sgemm_(&flag_b, &flag_a, &sizes[0], &sizes[1], &sizes[2], &alpha, b, &strides[0], a,
                    &strides[1], &beta, c, &strides[2]);
  }
  const auto view = [](const T* data, int64_t rows, int64_t columns, int64_t stride) {
    return at::from_blob(const_cast<T*>(data), {rows, columns}, {stride, 1},
                         at::TensorOptions().dtype(scalar_type_of<T>));
  };
  Tensor left = transpose_a ? view(a, k, m, stride_a).t() : view(a, m, k, stride_a);
  Tensor right = transpose_b ? view(b, n, k, stride_b).t() : view(b, k, n, stride_b);
  view(c, m, n, stride_c).addmm_(left, right, beta, alpha);
}

// The same. Narrow results are computed as wide ones, which takes BLAS half the time, and transposed.
constexpr int64_t kNarrow = 32;

template <typename T>
void gemm(bool transpose_a, bool transpose_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t stride_a, const T* b, int64_t stride_b, T beta, T* c, int64_t stride_c) {
  if (n > kNarrow || m < 2 * n) {
    call_gemm(transpose_a, transpose_b, m, n, k, alpha, a, stride_a, b, stride_b, beta, c, stride_c);
    return;
  }
  Scratch<T> scratch(m * n);
  const T* wide = scratch.data();
  call_gemm<T>(!transpose_b, !transpose_a, n, m, k, alpha, b, stride_b, a, stride_a, 0,
               scratch.data(), m);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      T& entry = c[i * stride_c + j];
      entry = wide[j * m + i] + (beta == T(0) ? T(0) : beta * entry);
    }
}

constexpr int64_t kSmallestSplit = 64;
constexpr double kHalfLogTwoPi = 0.91893853320467274178;

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

// One sample of K_it = h exp(-|x_i - y_t|^2 / 2 l^2), mean^T (returned) and squares, given the
// stacked matrix, whose upper part may be known to be lower triangular. Features are centred first,
// which changes no distance and limits cancellation.
template <typename T>
const T* gaussian_rows(const T* stacked, const Tensor& left, const Tensor& right, double log_height,
                       double log_lengthscale, int64_t width, const GaussianRows& kept, int64_t s,
                       T* squares, bool triangular) {
  const auto inducing = left.size(1), rows = right.size(1), features = left.size(2);
  Scratch<T> scratch(inducing + rows + features);
  T *norms = scratch.data(), *centre = norms + inducing + rows;
  const T factor = static_cast<T>(std::exp(-log_lengthscale));
  const T* x = left.const_data_ptr<T>() + s * inducing * features;
  T* a = kept.a.data_ptr<T>() + s * inducing * features;
  T* b = kept.b.data_ptr<T>() + s * rows * features;
  T* cross = kept.cross.data_ptr<T>() + s * inducing * rows;
  T* product = kept.product.data_ptr<T>() + s * (inducing + width) * rows;
  mean_row(x, centre, inducing, features);
  centre_and_scale(x, centre, factor, a, inducing, features);
  centre_and_scale(right.const_data_ptr<T>() + s * rows * features, centre, factor, b, rows,
                   features);
  half_squared_norms(a, norms, inducing, features);
  half_squared_norms(b, norms + inducing, rows, features);
  gemm<T>(false, true, inducing, rows, features, 1, a, features, b, features, 0, cross, rows);
  gaussian_in_place(cross, norms, norms + inducing, static_cast<T>(log_height), inducing, rows);
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

std::tuple<Tensor, Tensor, Tensor> condition_forward(const Tensor& projection, const Tensor& cross,
                                                     const Tensor& weights) {
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
    const Tensor& projection, const Tensor& left, const Tensor& right, double log_height,
    double log_lengthscale, const Tensor& weights) {
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
    const Tensor& cross, const Tensor& product, double log_lengthscale, const Tensor& grad_mean,
    const Tensor& grad_squares) {
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
  return {out.projection, out.left, out.right, scalars[0], scalars[1], out.weights};
}

// A sample of the rows instead of their moments: mean + sqrt(scale * max(h - squares, floor))
// * noise, with the deviations kept for the gradient.
template <typename T>
void sample_rows(const T* __restrict mean, const T* __restrict squares, const T* __restrict noise,
                 T height, T scale, T* __restrict deviation, T* __restrict out, int64_t rows,
                 int64_t width) {
  const T floor = std::numeric_limits<T>::epsilon() * height;
  for (int64_t t = 0; t < rows; ++t) {
    const T variance = height - squares[t];
    deviation[t] = std::sqrt(scale * (variance < floor ? floor : variance));
    for (int64_t k = 0; k < width; ++k)
      out[t * width + k] = mean[k * rows + t] + deviation[t] * noise[t * width + k];
  }
}

// The gradient of squares; returns that of log h through the variance. Floored variances are
// constants.
template <typename T>
T sample_rows_backward(const T* __restrict grad, const T* __restrict noise,
                       const T* __restrict deviation, T height, T scale, T* __restrict grad_squares,
                       int64_t rows, int64_t width) {
  const T floor = std::sqrt(scale * (std::numeric_limits<T>::epsilon() * height));
  T total = 0;
  for (int64_t t = 0; t < rows; ++t) {
    T slope = 0;
    for (int64_t k = 0; k < width; ++k) slope += grad[t * width + k] * noise[t * width + k];
    grad_squares[t] = deviation[t] > floor ? T(-0.5) * scale * slope / deviation[t] : T(0);
    total -= grad_squares[t];
  }
  return height * total;
}

// G is C = K_ii^-1 in double precision and H with C = H^T H in single (see kSquared); solved is C F.
// Neither needs a gradient: K_ii and F receive it directly.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_sample_forward(
    const Tensor& form, const Tensor& solved, const Tensor& left, const Tensor& right,
    double log_height, double log_lengthscale, const Tensor& noise, double scale) {
  const auto batch = left.size(0), inducing = left.size(1), rows = right.size(1);
  const auto width = solved.size(2);
  GaussianRows kept = empty_rows(left, right, solved);
  Tensor deviation = like(left, {batch, rows}), out = at::empty_like(noise);
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
      sample_rows<scalar_t>(mean, squares, noise.const_data_ptr<scalar_t>() + s * rows * width,
                            std::exp(static_cast<scalar_t>(log_height)),
                            static_cast<scalar_t>(scale), deviation.data_ptr<scalar_t>() + s * rows,
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
    const Tensor& product, const Tensor& noise, const Tensor& deviation, double log_height,
    double log_lengthscale, double scale, const Tensor& grad) {
  const auto inducing = a.size(1), rows = b.size(1), width = solved.size(2);
  const auto height = inducing + width, all = inducing * inducing;
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
          own, noise.const_data_ptr<scalar_t>() + s * rows * width,
          deviation.const_data_ptr<scalar_t>() + s * rows,
          std::exp(static_cast<scalar_t>(log_height)), static_cast<scalar_t>(scale), grad_squares,
          rows, width);
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
      gemm<scalar_t>(false, true, height, inducing, rows, 1, above, rows, top, rows, 0, products,
                     inducing);
      if (!kSquared<scalar_t>) {
        gemm<scalar_t>(false, false, height, inducing, inducing, 1, products, inducing, G, inducing,
                       0, rotated, inducing);
        std::swap(products, rotated);
      }
      transpose_into(products + all, grad_root, width, inducing);
      for (int64_t i = 0; i < all; ++i) grad_kernel[i] = scalar_t(-0.5) * products[i];
      gemm<scalar_t>(false, true, inducing, inducing, width, scalar_t(-0.5), grad_root, width, CF,
                     width, 1, grad_kernel, inducing);
      feature_gradients(above, kept, log_lengthscale, out, s);
    });
  });
  const Tensor scalars = sum_samples(out.scalars);
  return {out.projection, out.weights, out.left, out.right, scalars[0], scalars[1]};
}

// K = h exp(-|x_i - x_j|^2 / 2 l^2), exactly symmetric, with h (1 + jitter) on the diagonal.
std::tuple<Tensor, Tensor> gaussian_square_forward(const Tensor& features, double log_height,
                                                   double log_lengthscale, double jitter) {
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
                                                            double log_lengthscale,
                                                            const Tensor& grad_kernel) {
  const auto batch = scaled.size(0), size = scaled.size(1), width = scaled.size(2);
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
  return {grad_features, scalars[0], scalars[1]};
}

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
Tensor wrap(const T* matrix, int64_t size) {
  return at::from_blob(const_cast<T*>(matrix), {size, size},
                       at::TensorOptions().dtype(scalar_type_of<T>));
}

template <typename T>
void invert_lower(const T* lower, T* inverse, int64_t size) {
  if (size <= kSmall) return small_triangular_inverse(lower, inverse, size);
  Tensor identity = at::eye(size, at::TensorOptions().dtype(scalar_type_of<T>));
  wrap(inverse, size).copy_(at::linalg_solve_triangular(wrap(lower, size), identity, false));
}

// Returns 0, or the index of the pivot that failed.
template <typename T>
int32_t factorise(const T* matrix, T* lower, int64_t size) {
  if (size <= kSmall) {
    Scratch<T> upper(size * size);
    return small_cholesky(matrix, upper.data(), lower, size);
  }
  auto [factor, status] = at::linalg_cholesky_ex(wrap(matrix, size));
  wrap(lower, size).copy_(factor);
  return status.template item<int32_t>();
}

Tensor triangular_inverse(const Tensor& lower) {
  Tensor inverse = at::empty_like(lower);
  const int64_t size = lower.size(-1), all = size * size;
  for_each_sample(lower.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(lower.scalar_type(), "triangular_inverse", [&] {
      invert_lower(lower.const_data_ptr<scalar_t>() + s * all,
                   inverse.data_ptr<scalar_t>() + s * all, size);
    });
  });
  return inverse;
}

// Lower factors, and per sample 0 or the index of the pivot that failed.
std::tuple<Tensor, Tensor> cholesky(const Tensor& matrix) {
  Tensor lower = at::empty_like(matrix);
  Tensor info = at::empty({matrix.size(0)}, matrix.options().dtype(at::kInt));
  const int64_t size = matrix.size(-1), all = size * size;
  for_each_sample(matrix.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(matrix.scalar_type(), "cholesky", [&] {
      info.data_ptr<int32_t>()[s] = factorise(matrix.const_data_ptr<scalar_t>() + s * all,
                                              lower.data_ptr<scalar_t>() + s * all, size);
    });
  });
  return {lower, info};
}

// Adds the lower triangle of alpha A^T B (transposed) or alpha A B^T to beta times out, for
// lower-triangular A and B; what is above the diagonal is left undefined.
template <typename T>
void lower_products(bool transpose_first, const T* a, const T* b, T alpha, T beta, T* out,
                    int64_t size) {
  const int64_t half = size / 2, rest = size - half;
  const bool first = transpose_first, second = !transpose_first;
  if (size < kSmallestSplit) {
    gemm<T>(first, second, size, size, size, alpha, a, size, b, size, beta, out, size);
    return;
  }
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
  const int64_t half = size / 2, rest = size - half;
  if (size < kSmallestSplit) {
    gemm<T>(false, false, size, size, size, 1, symmetric, size, inverse, size, 0, scratch, size);
    gemm<T>(true, false, size, size, size, 1, inverse, size, scratch, size, 0, out, size);
    return;
  }
  const int64_t left = half * size, corner = left + half;
  gemm<T>(false, false, size, half, size, 1, symmetric, size, inverse, size, 0, scratch, size);
  gemm<T>(false, false, rest, rest, rest, 1, symmetric + corner, size, inverse + corner, size, 0,
          scratch + corner, size);
  gemm<T>(true, false, half, half, size, 1, inverse, size, scratch, size, 0, out, size);
  gemm<T>(true, false, rest, half, rest, 1, inverse + corner, size, scratch + left, size, 0,
          out + left, size);
  gemm<T>(true, false, rest, rest, rest, 1, inverse + corner, size, scratch + corner, size, 0,
          out + corner, size);
  for (int64_t i = half; i < size; ++i)
    for (int64_t j = 0; j < half; ++j) out[j * size + i] = out[i * size + j];
}

Tensor cholesky_backward(const Tensor& lower, const Tensor& inverse,
                         const std::optional<Tensor>& grad_lower,
                         const std::optional<Tensor>& grad_inverse) {
  Tensor result = at::empty_like(inverse);
  const int64_t size = inverse.size(-1), all = size * size;
  for_each_sample(inverse.size(0), [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(inverse.scalar_type(), "cholesky_backward", [&] {
      Scratch<scalar_t> scratch(2 * all);
      scalar_t* middle = scratch.data();
      const scalar_t* own = inverse.const_data_ptr<scalar_t>() + s * all;
      if (grad_lower)
        lower_products<scalar_t>(true, lower.const_data_ptr<scalar_t>() + s * all,
                                 grad_lower->const_data_ptr<scalar_t>() + s * all, 1, 0, middle,
                                 size);
      if (grad_inverse)
        lower_products<scalar_t>(false, grad_inverse->const_data_ptr<scalar_t>() + s * all, own, -1,
                                 grad_lower ? 1 : 0, middle, size);
      halve_and_mirror(middle, size);
      sandwich(own, middle, middle + all, result.data_ptr<scalar_t>() + s * all, size);
    });
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

template <typename T>
T sum_log_diagonal(const T* matrix, int64_t size) {
  T total = 0;
  for (int64_t i = 0; i < size; ++i) total += std::log(matrix[i * size + i]);
  return total;
}

// A layer at its inducing points: with K = L L^T and R R^T = (1 - q) s K + q V V^T, returns
// H = L^-1, R, the root F = R A, the weights w = H F, the form G of rows (H, or K^-1 where kSquared),
// K^-1 F, V V^T, the log density nu (log|R| - log|sqrt(s) L|) - |w|^2 / 2s of each group of columns,
// and the number of samples that did not factorise, whose outputs are undefined.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int64_t>
draw_root_forward(const Tensor& kernel, const Tensor& scale_root, double mixing,
                  const Tensor& factor, double scale, double degrees, int64_t groups) {
  const int64_t batch = kernel.size(0), size = kernel.size(1), width = factor.size(2);
  const int64_t all = size * size, narrow = size * width, own_width = width / groups;
  Tensor inverse = at::empty_like(kernel), mixed_lower = at::empty_like(kernel);
  const bool squared = kernel.scalar_type() == at::kDouble;
  Tensor form = squared ? at::empty_like(kernel) : inverse;
  Tensor root = at::empty_like(factor), weights = at::empty_like(factor),
         solved = at::empty_like(factor);
  Tensor log_density = like(kernel, {batch, groups});
  std::atomic<int64_t> failures{0};
  const Tensor learned = at::mm(scale_root, scale_root.t());
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(kernel.scalar_type(), "draw_root", [&] {
      // Factors are computed in double precision whatever the dtype. In single precision their
      // rounding is as large as the jitter, and the density depends on every small pivot.
      Scratch<double> scratch(4 * all);
      double *exact = scratch.data(), *lower = exact + all, *mixed = lower + all;
      double* other = mixed + all;
      scalar_t* H = inverse.data_ptr<scalar_t>() + s * all;
      scalar_t* R = mixed_lower.data_ptr<scalar_t>() + s * all;
      scalar_t* F = root.data_ptr<scalar_t>() + s * narrow;
      scalar_t* w = weights.data_ptr<scalar_t>() + s * narrow;
      const scalar_t* t = learned.const_data_ptr<scalar_t>();
      std::copy_n(kernel.const_data_ptr<scalar_t>() + s * all, all, exact);
      if (factorise(exact, lower, size) != 0) {
        ++failures;
        return;
      }
      invert_lower(lower, other, size);
      std::copy_n(other, all, H);
      const double kept = (1.0 - mixing) * scale;
      for (int64_t i = 0; i < all; ++i) mixed[i] = kept * exact[i] + mixing * t[i];
      if (factorise(mixed, other, size) != 0) {
        ++failures;
        return;
      }
      std::copy_n(other, all, R);
      const double volume = sum_log_diagonal(other, size) - sum_log_diagonal(lower, size) -
                            0.5 * std::log(scale) * static_cast<double>(size);
      gemm<scalar_t>(false, false, size, width, size, 1, R, size,
                     factor.const_data_ptr<scalar_t>() + s * narrow, width, 0, F, width);
      gemm<scalar_t>(false, false, size, width, size, 1, H, size, F, width, 0, w, width);
      gemm<scalar_t>(true, false, size, width, size, 1, H, size, w, width, 0,
                     solved.data_ptr<scalar_t>() + s * narrow, width);
      if (squared)
        gemm<scalar_t>(true, false, size, size, size, 1, H, size, H, size, 0,
                       form.data_ptr<scalar_t>() + s * all, size);
      scalar_t* out = log_density.data_ptr<scalar_t>() + s * groups;
      for (int64_t g = 0; g < groups; ++g) {
        double squares = 0;
        for (int64_t i = 0; i < size; ++i)
          for (int64_t j = g * own_width; j < (g + 1) * own_width; ++j)
            squares += double(w[i * width + j]) * w[i * width + j];
        out[g] = static_cast<scalar_t>(degrees * volume - 0.5 / scale * squares);
      }
    });
  });
  return {inverse, mixed_lower, root, weights, form, solved, learned, log_density, failures};
}

// Gradients of the above for incoming gH, gF, gw and gd (derivation in _fused.py): those of K, V, q
// and A.
std::tuple<Tensor, Tensor, Tensor, Tensor> draw_root_backward(
    const Tensor& kernel, const Tensor& scale_root, double mixing, const Tensor& factor,
    double scale, double degrees, const Tensor& inverse, const Tensor& mixed_lower,
    const Tensor& weights, const Tensor& form, const Tensor& solved, const Tensor& learned,
    const std::optional<Tensor>& grad_inverse, const std::optional<Tensor>& grad_root,
    const std::optional<Tensor>& grad_weights, const std::optional<Tensor>& grad_density) {
  const int64_t batch = kernel.size(0), size = kernel.size(1), width = factor.size(2);
  const int64_t all = size * size, narrow = size * width;
  const int64_t groups = grad_density ? grad_density->size(1) : 1, own_width = width / groups;
  Tensor grad_kernel = at::empty_like(kernel), grad_learned = at::empty_like(kernel);
  Tensor grad_factor = at::empty_like(factor), grad_mixing = like(kernel, {batch});
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(kernel.scalar_type(), "draw_root_backward", [&] {
      Scratch<scalar_t> scratch(3 * all + 2 * narrow);
      scalar_t *middle = scratch.data(), *products = middle + all, *mixed_inverse = products + all;
      scalar_t *along = mixed_inverse + all, *weighted = along + narrow;
      const auto own = [s](const Tensor& tensor, int64_t count) {
        return tensor.const_data_ptr<scalar_t>() + s * count;
      };
      const scalar_t *H = own(inverse, all), *R = own(mixed_lower, all), *A = own(factor, narrow);
      const scalar_t *k = own(kernel, all), *CF = own(solved, narrow);
      const scalar_t* gw = grad_weights ? own(*grad_weights, narrow) : nullptr;
      scalar_t* gA = grad_factor.data_ptr<scalar_t>() + s * narrow;
      scalar_t* g = grad_kernel.data_ptr<scalar_t>() + s * all;
      scalar_t* gm = grad_learned.data_ptr<scalar_t>() + s * all;

      // The density's own slopes: -gd/s C F for F, and (C F gd/s (C F)^T - nu gd C) / 2 for K.
      scalar_t volume = 0;
      std::fill_n(weighted, narrow, scalar_t(0));
      if (grad_density) {
        const scalar_t* gd = own(*grad_density, groups);
        for (int64_t j = 0; j < groups; ++j) volume += static_cast<scalar_t>(degrees) * gd[j];
        for (int64_t i = 0; i < size; ++i)
          for (int64_t j = 0; j < width; ++j)
            weighted[i * width + j] =
                gd[j / own_width] / static_cast<scalar_t>(scale) * CF[i * width + j];
      }
      const scalar_t* C = own(form, all);
      if (!kSquared<scalar_t>) {
        gemm<scalar_t>(true, false, size, size, size, 1, H, size, H, size, 0, products, size);
        C = products;
      }
      for (int64_t i = 0; i < all; ++i) g[i] = scalar_t(-0.5) * volume * C[i];
      gemm<scalar_t>(false, true, size, size, width, scalar_t(0.5), weighted, width, CF, width, 1,
                     g, size);

      for (int64_t i = 0; i < narrow; ++i)
        along[i] = (grad_root ? own(*grad_root, narrow)[i] : scalar_t(0)) - weighted[i];
      if (gw) gemm<scalar_t>(true, false, size, width, size, 1, H, size, gw, width, 1, along, width);
      gemm<scalar_t>(true, false, size, width, size, 1, R, size, along, width, 0, gA, width);
      gemm<scalar_t>(false, true, size, size, width, 1, gA, width, A, width, 0, middle, size);
      for (int64_t i = 0; i < size; ++i) middle[i * size + i] += volume;
      halve_and_mirror(middle, size);
      invert_lower(R, mixed_inverse, size);
      sandwich(mixed_inverse, middle, products, gm, size);

      if (grad_inverse || gw) {
        if (grad_inverse)
          lower_products<scalar_t>(false, own(*grad_inverse, all), H, -1, 0, middle, size);
        else
          std::fill_n(middle, all, scalar_t(0));
        if (gw)
          gemm<scalar_t>(false, true, size, size, width, -1, gw, width, own(weights, narrow), width,
                         1, middle, size);
        halve_and_mirror(middle, size);
        sandwich(H, middle, products, mixed_inverse, size);
        for (int64_t i = 0; i < all; ++i) g[i] += mixed_inverse[i];
      }

      const scalar_t kept = static_cast<scalar_t>((1.0 - mixing) * scale);
      const scalar_t added = static_cast<scalar_t>(2.0 * mixing);
      grad_mixing.data_ptr<scalar_t>()[s] = dot(gm, learned.const_data_ptr<scalar_t>(), all) -
                                            static_cast<scalar_t>(scale) * dot(gm, k, all);
      for (int64_t i = 0; i < all; ++i) {
        g[i] += kept * gm[i];
        gm[i] *= added;
      }
    });
  });
  return {grad_kernel, at::mm(sum_samples(grad_learned), scale_root), sum_samples(grad_mixing),
          grad_factor};
}

// Pseudo-observations M^T v of a Gaussian with covariance s K: B = I + s M^T K M = L L^T. Returns
// L^-1, Y = L^-1 M^T, w = Y v, log|B|, tr B^-1, |L^-T w|^2, K M for the gradient, and the number of
// samples that did not factorise.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, int64_t> observe_forward(
    const Tensor& kernel, const Tensor& root, const Tensor& targets, double scale) {
  const int64_t batch = kernel.size(0), size = kernel.size(1), width = targets.size(1);
  const int64_t all = size * size, narrow = size * width;
  Tensor inverse = at::empty_like(kernel), projection = at::empty_like(kernel),
         products = at::empty_like(kernel), whitened = like(kernel, {batch, size, width}),
         numbers = like(kernel, {batch, 3});
  std::atomic<int64_t> failures{0};
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(kernel.scalar_type(), "observe", [&] {
      Scratch<scalar_t> scratch(2 * all + narrow);
      scalar_t *inner = scratch.data(), *lower = inner + all, *back = lower + all;
      const scalar_t* M = root.const_data_ptr<scalar_t>();
      scalar_t* H = inverse.data_ptr<scalar_t>() + s * all;
      scalar_t* Y = projection.data_ptr<scalar_t>() + s * all;
      scalar_t* X = products.data_ptr<scalar_t>() + s * all;
      scalar_t* w = whitened.data_ptr<scalar_t>() + s * narrow;
      scalar_t* own = numbers.data_ptr<scalar_t>() + s * 3;
      gemm<scalar_t>(false, false, size, size, size, 1,
                     kernel.const_data_ptr<scalar_t>() + s * all, size, M, size, 0, X, size);
      gemm<scalar_t>(true, false, size, size, size, static_cast<scalar_t>(scale), M, size, X, size,
                     0, inner, size);
      for (int64_t i = 0; i < size; ++i) inner[i * size + i] += scalar_t(1);
      if (factorise(inner, lower, size) != 0) {
        ++failures;
        return;
      }
      invert_lower(lower, H, size);
      gemm<scalar_t>(false, true, size, size, size, 1, H, size, M, size, 0, Y, size);
      gemm<scalar_t>(false, false, size, width, size, 1, Y, size,
                     targets.const_data_ptr<scalar_t>(), width, 0, w, width);
      gemm<scalar_t>(true, false, size, width, size, 1, H, size, w, width, 0, back, width);
      own[0] = scalar_t(2) * sum_log_diagonal(lower, size);
      own[1] = dot(H, H, all);
      own[2] = dot(back, back, narrow);
    });
  });
  return {inverse, projection, whitened, numbers, products, failures};
}

// Gradients of K, M and v; derivation in _fused.py.
std::tuple<Tensor, Tensor, Tensor> observe_backward(
    const Tensor& root, const Tensor& targets, double scale, const Tensor& inverse,
    const Tensor& projection, const Tensor& whitened, const Tensor& products,
    const std::optional<Tensor>& grad_inverse, const std::optional<Tensor>& grad_projection,
    const std::optional<Tensor>& grad_whitened, const std::optional<Tensor>& grad_numbers) {
  const int64_t batch = inverse.size(0), size = inverse.size(1), width = targets.size(1);
  const int64_t all = size * size, narrow = size * width;
  Tensor grad_kernel = at::empty_like(inverse), grad_root = at::empty_like(inverse),
         grad_targets = at::empty_like(whitened);
  for_each_sample(batch, [&](int64_t s) {
    AT_DISPATCH_FLOATING_TYPES(inverse.scalar_type(), "observe_backward", [&] {
      Scratch<scalar_t> scratch(5 * all + 2 * narrow);
      scalar_t *gH = scratch.data(), *gY = gH + all, *middle = gY + all, *gB = middle + all;
      scalar_t *work = gB + all, *back = work + all, *gw = back + narrow;
      const auto own = [s](const Tensor& tensor, int64_t count) {
        return tensor.const_data_ptr<scalar_t>() + s * count;
      };
      const auto start = [s](const std::optional<Tensor>& from, scalar_t* to, int64_t count) {
        if (from)
          std::copy_n(from->const_data_ptr<scalar_t>() + s * count, count, to);
        else
          std::fill_n(to, count, scalar_t(0));
      };
      const scalar_t *H = own(inverse, all), *Y = own(projection, all), *w = own(whitened, narrow);
      const scalar_t* M = root.const_data_ptr<scalar_t>();
      scalar_t numbers[3] = {0, 0, 0};
      if (grad_numbers) std::copy_n(own(*grad_numbers, 3), 3, numbers);
      const scalar_t twice = scalar_t(2) * numbers[2], factor = static_cast<scalar_t>(scale);
      start(grad_inverse, gH, all);
      start(grad_projection, gY, all);
      start(grad_whitened, gw, narrow);
      gemm<scalar_t>(true, false, size, width, size, 1, H, size, w, width, 0, back, width);
      gemm<scalar_t>(false, false, size, width, size, twice, H, size, back, width, 1, gw, width);
      gemm<scalar_t>(false, true, size, size, width, twice, w, width, back, width, 1, gH, size);
      for (int64_t i = 0; i < all; ++i) gH[i] += scalar_t(2) * numbers[1] * H[i];
      gemm<scalar_t>(false, true, size, size, width, 1, gw, width,
                     targets.const_data_ptr<scalar_t>(), width, 1, gY, size);
      gemm<scalar_t>(true, false, size, width, size, 1, Y, size, gw, width, 0,
                     grad_targets.data_ptr<scalar_t>() + s * narrow, width);
      gemm<scalar_t>(false, false, size, size, size, 1, gY, size, M, size, 1, gH, size);
      lower_products<scalar_t>(false, gH, H, -1, 0, middle, size);
      for (int64_t i = 0; i < size; ++i) middle[i * size + i] += scalar_t(2) * numbers[0];
      halve_and_mirror(middle, size);
      sandwich(H, middle, work, gB, size);
      scalar_t* gM = grad_root.data_ptr<scalar_t>() + s * all;
      gemm<scalar_t>(true, false, size, size, size, 1, gY, size, H, size, 0, gM, size);
      gemm<scalar_t>(false, false, size, size, size, 2 * factor, own(products, all), size, gB, size,
                     1, gM, size);
      gemm<scalar_t>(false, false, size, size, size, factor, M, size, gB, size, 0, work, size);
      gemm<scalar_t>(false, true, size, size, size, 1, work, size, M, size, 0,
                     grad_kernel.data_ptr<scalar_t>() + s * all, size);
    });
  });
  return {grad_kernel, sum_samples(grad_root), sum_samples(grad_targets)};
}

// A Bartlett factor, loc + scale * noise below the diagonal and sqrt(gamma / rate) on it, with the
// log density of A A^T relative to prod_j A_jj^tilt; formulas in scored_factor.py.
std::tuple<Tensor, Tensor> scored_factor_forward(const Tensor& gamma, const Tensor& concentration,
                                                 const Tensor& rate, const Tensor& loc,
                                                 const Tensor& scale, const Tensor& noise,
                                                 double tilt) {
  const int64_t batch = noise.size(0), size = loc.size(0), width = loc.size(1);
  Tensor factor = at::empty_like(noise), log_density = like(noise, {batch});
  AT_DISPATCH_FLOATING_TYPES(noise.scalar_type(), "scored_factor", [&] {
    const scalar_t *mu = loc.const_data_ptr<scalar_t>(), *sigma = scale.const_data_ptr<scalar_t>();
    const scalar_t* alpha = concentration.const_data_ptr<scalar_t>();
    const scalar_t* beta = rate.const_data_ptr<scalar_t>();
    double constant = 0;  // what no sample changes
    for (int64_t j = 0; j < width; ++j)
      constant += alpha[j] * std::log(beta[j]) - std::lgamma(static_cast<double>(alpha[j]));
    for (int64_t i = 0; i < size; ++i)
      for (int64_t at = i * width; at < i * width + std::min(i, width); ++at)
        constant -= std::log(sigma[at]) + kHalfLogTwoPi;
    for_each_sample(batch, [&](int64_t s) {
      const scalar_t* epsilon = noise.const_data_ptr<scalar_t>() + s * size * width;
      const scalar_t* g = gamma.const_data_ptr<scalar_t>() + s * width;
      scalar_t* out = factor.data_ptr<scalar_t>() + s * size * width;
      double total = constant;
      for (int64_t i = 0; i < size; ++i) {
        scalar_t squares = 0;
        for (int64_t j = 0; j < width; ++j) {
          const int64_t at = i * width + j;
          const bool below = i > j;
          out[at] = below ? mu[at] + sigma[at] * epsilon[at] : scalar_t(0);
          squares += below ? epsilon[at] * epsilon[at] : scalar_t(0);
        }
        total -= 0.5 * squares;
      }
      for (int64_t j = 0; j < width; ++j) {
        const double power = 2.0 * (alpha[j] - 1.0) - static_cast<double>(size - 1 - j) - tilt;
        const scalar_t diagonal = std::sqrt(g[j] / beta[j]);
        out[j * width + j] = diagonal;
        total += power * std::log(diagonal) - g[j];  // beta A_jj^2 is g_j
      }
      log_density.data_ptr<scalar_t>()[s] = static_cast<scalar_t>(total);
    });
  });
  return {factor, log_density};
}

// Gradients of gamma, rate, loc, scale along the sample, the density's slopes having the weights q.
std::tuple<Tensor, Tensor, Tensor, Tensor> scored_factor_backward(
    const Tensor& gamma, const Tensor& concentration, const Tensor& rate, const Tensor& scale,
    const Tensor& noise, double tilt, const Tensor& grad, const Tensor& slope,
    const Tensor& weight) {
  const int64_t batch = noise.size(0), size = scale.size(0), width = scale.size(1);
  Tensor grad_gamma = at::empty_like(gamma), grad_rate = at::zeros_like(rate),
         grad_loc = at::zeros_like(scale), grad_scale = at::zeros_like(scale);
  AT_DISPATCH_FLOATING_TYPES(noise.scalar_type(), "scored_factor_backward", [&] {
    const scalar_t *beta = rate.const_data_ptr<scalar_t>(),
                   *alpha = concentration.const_data_ptr<scalar_t>();
    const scalar_t *gd = slope.const_data_ptr<scalar_t>(), *q = weight.const_data_ptr<scalar_t>();
    const scalar_t* incoming = grad.const_data_ptr<scalar_t>();
    for (int64_t s = 0; s < batch; ++s) {
      const scalar_t* g = gamma.const_data_ptr<scalar_t>() + s * width;
      for (int64_t j = 0; j < width; ++j) {
        const scalar_t power = scalar_t(2) * (alpha[j] - scalar_t(1)) -
                               static_cast<scalar_t>(size - 1 - j) - static_cast<scalar_t>(tilt);
        const scalar_t diagonal = std::sqrt(g[j] / beta[j]);
        // A_jj / 2 times its gradient, which is that of log g_j and minus that of log beta_j
        const scalar_t half =
            scalar_t(0.5) * incoming[(s * size + j) * width + j] * diagonal +
            gd[s] * (scalar_t(0.5) * power - g[j]);
        grad_gamma.data_ptr<scalar_t>()[s * width + j] = half / g[j];
        grad_rate.data_ptr<scalar_t>()[j] -= half / beta[j];
      }
    }
    at::parallel_for(0, size, 16, [&](int64_t begin, int64_t end) {
      const scalar_t* sigma = scale.const_data_ptr<scalar_t>();
      scalar_t *loc = grad_loc.data_ptr<scalar_t>(), *out = grad_scale.data_ptr<scalar_t>();
      for (int64_t s = 0; s < batch; ++s) {
        const scalar_t* epsilon = noise.const_data_ptr<scalar_t>() + s * size * width;
        const scalar_t* g = incoming + s * size * width;
        for (int64_t i = begin; i < end; ++i) {
          for (int64_t at = i * width; at < i * width + std::min(i, width); ++at) {
            const scalar_t along = g[at] - q[s] * epsilon[at] / sigma[at];
            loc[at] += along;
            out[at] += along * epsilon[at];
          }
        }
      }
    });
  });
  return {grad_gamma, grad_rate, grad_loc, grad_scale};
}

}  // namespace

TORCH_LIBRARY(deepwishart, library) {
  library.def("condition_forward(Tensor H, Tensor K, Tensor w) -> (Tensor, Tensor, Tensor)",
              condition_forward);
  library.def(
      "condition_backward(Tensor H, Tensor K, Tensor w, Tensor A, Tensor gm, Tensor gs) -> "
      "(Tensor, Tensor, Tensor)",
      condition_backward);
  library.def(
      "gaussian_condition_forward(Tensor H, Tensor left, Tensor right, "
      "float log_height, float log_lengthscale, Tensor w) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_condition_forward);
  library.def(
      "gaussian_condition_backward(Tensor H, Tensor left, Tensor right, Tensor w, "
      "Tensor K, Tensor A, float log_lengthscale, Tensor gm, Tensor gs) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_condition_backward);
  library.def(
      "gaussian_square_forward(Tensor features, float log_height, float log_lengthscale, "
      "float jitter) -> (Tensor, Tensor)",
      gaussian_square_forward);
  library.def(
      "gaussian_square_backward(Tensor scaled, Tensor kernel, float log_lengthscale, Tensor grad) "
      "-> (Tensor, Tensor, Tensor)",
      gaussian_square_backward);
  library.def(
      "gaussian_sample_forward(Tensor form, Tensor solved, Tensor left, Tensor right, "
      "float log_height, float log_lengthscale, Tensor noise, float scale) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_sample_forward);
  library.def(
      "gaussian_sample_backward(Tensor form, Tensor solved, Tensor left, Tensor right, Tensor K, "
      "Tensor product, Tensor noise, Tensor deviation, float log_height, float log_lengthscale, "
      "float scale, Tensor grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_sample_backward);
  library.def(
      "draw_root_forward(Tensor K, Tensor V, float mixing, Tensor factor, float scale, "
      "float degrees, int groups) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, int)",
      draw_root_forward);
  library.def(
      "draw_root_backward(Tensor K, Tensor V, float mixing, Tensor factor, float scale, "
      "float degrees, Tensor H, Tensor R, Tensor w, Tensor form, Tensor solved, Tensor VV, "
      "Tensor? gH, Tensor? gF, Tensor? gw, Tensor? gd) -> (Tensor, Tensor, Tensor, Tensor)",
      draw_root_backward);
  library.def(
      "observe_forward(Tensor K, Tensor M, Tensor v, float scale) -> "
      "(Tensor, Tensor, Tensor, Tensor, Tensor, int)",
      observe_forward);
  library.def(
      "observe_backward(Tensor M, Tensor v, float scale, Tensor H, Tensor Y, Tensor w, Tensor KM, "
      "Tensor? gH, Tensor? gY, Tensor? gw, Tensor? gn) -> (Tensor, Tensor, Tensor)",
      observe_backward);
  library.def(
      "scored_factor_forward(Tensor gamma, Tensor concentration, Tensor rate, Tensor loc, "
      "Tensor scale, Tensor noise, float tilt) -> (Tensor, Tensor)",
      scored_factor_forward);
  library.def(
      "scored_factor_backward(Tensor gamma, Tensor concentration, Tensor rate, Tensor scale, "
      "Tensor noise, float tilt, Tensor grad, Tensor slope, Tensor weight) -> "
      "(Tensor, Tensor, Tensor, Tensor)",
      scored_factor_backward);
  library.def("triangular_inverse(Tensor lower) -> Tensor", triangular_inverse);
  library.def("cholesky(Tensor matrix) -> (Tensor, Tensor)", cholesky);
  library.def(
      "cholesky_backward(Tensor lower, Tensor inverse, Tensor? grad_lower, Tensor? grad_inverse) "
      "-> Tensor",
      cholesky_backward);
}
