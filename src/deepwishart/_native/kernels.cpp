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
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <tuple>

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

template <typename T>
void column_squares(const T* __restrict block, T* __restrict sums, int64_t rows, int64_t columns) {
  std::fill(sums, sums + columns, T(0));
  for (int64_t i = 0; i < rows; ++i) {
    const T* __restrict row = block + i * columns;
    for (int64_t j = 0; j < columns; ++j) sums[j] += row[j] * row[j];
  }
}

// out = 2 * block * diag(scale)
template <typename T>
void scale_columns(const T* __restrict block, const T* __restrict scale, T* __restrict out,
                   int64_t rows, int64_t columns) {
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      out[i * columns + j] = T(2) * block[i * columns + j] * scale[j];
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
  for (int64_t i = 0; i < count; ++i) {
    total += values[i] * other[i];
    values[i] *= factor;
  }
  return total;
}

Tensor like(const Tensor& reference, at::IntArrayRef shape) {
  return at::empty(shape, reference.options());
}

constexpr int64_t kSmallestSplit = 64;

Tensor block(const Tensor& matrix, int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return matrix.narrow(0, row, rows).narrow(1, column, columns);
}

// For one sample: A = H K and mean^T = w^T A = (H^T w)^T K as one product, [H; (H^T w)^T] K, whose
// result is kept; squares are the column sums of A^2. Narrow products on their own are slow.
void condition_sample(const Tensor& projection, const Tensor& cross, const Tensor& weights,
                      Tensor projected, Tensor mean, Tensor squares) {
  const int64_t inducing = cross.size(0), width = weights.size(1);
  Tensor stacked = like(cross, {inducing + width, inducing});
  stacked.narrow(0, 0, inducing).copy_(projection);
  Tensor narrow = stacked.narrow(0, inducing, width);
  at::mm_out(narrow, weights.t(), projection);
  at::mm_out(projected, stacked, cross);
  mean.copy_(projected.narrow(0, inducing, width).t());
  AT_DISPATCH_FLOATING_TYPES(cross.scalar_type(), "column_squares", [&] {
    column_squares(projected.const_data_ptr<scalar_t>(), squares.data_ptr<scalar_t>(), inducing,
                   cross.size(1));
  });
}

// Gradients of the above. With gA = w gm^T + 2 A diag(gs):
//   [2 A diag(gs); gm^T] K^T gives gH up to w (K gm)^T, and (K gm)^T; then gw = H K gm;
//   [H; (H^T w)^T]^T [2 A diag(gs); gm^T] gives gK = H^T gA.
void condition_sample_backward(const Tensor& projection, const Tensor& cross,
                               const Tensor& weights, const Tensor& projected,
                               const Tensor& grad_mean, const Tensor& grad_squares,
                               Tensor grad_projection, Tensor grad_cross, Tensor grad_weights) {
  const int64_t inducing = cross.size(0), rows = cross.size(1), width = weights.size(1);
  Tensor above = like(cross, {inducing + width, rows});
  above.narrow(0, inducing, width).copy_(grad_mean.t());
  AT_DISPATCH_FLOATING_TYPES(cross.scalar_type(), "scale_columns", [&] {
    scale_columns(projected.const_data_ptr<scalar_t>(), grad_squares.const_data_ptr<scalar_t>(),
                  above.data_ptr<scalar_t>(), inducing, rows);
  });
  Tensor products = at::mm(above, cross.t());
  Tensor narrow = products.narrow(0, inducing, width);  // (K gm)^T
  at::addmm_out(grad_projection, products.narrow(0, 0, inducing), weights, narrow);
  at::mm_out(grad_weights, projection, narrow.t());
  Tensor stacked = like(cross, {inducing + width, inducing});
  stacked.narrow(0, 0, inducing).copy_(projection);
  Tensor last = stacked.narrow(0, inducing, width);
  at::mm_out(last, weights.t(), projection);
  at::mm_out(grad_cross, stacked.t(), above);
}

std::tuple<Tensor, Tensor, Tensor> condition_forward(const Tensor& projection, const Tensor& cross,
                                                     const Tensor& weights) {
  const auto batch = cross.size(0), inducing = cross.size(1), rows = cross.size(2);
  Tensor projected = like(cross, {batch, inducing + weights.size(2), rows});
  Tensor mean = like(cross, {batch, rows, weights.size(2)});
  Tensor squares = like(cross, {batch, rows});
  for_each_sample(batch, [&](int64_t s) {
    condition_sample(projection[s], cross[s], weights[s], projected[s], mean[s], squares[s]);
  });
  return {mean, squares, projected};
}

std::tuple<Tensor, Tensor, Tensor> condition_backward(const Tensor& projection, const Tensor& cross,
                                                      const Tensor& weights,
                                                      const Tensor& projected,
                                                      const Tensor& grad_mean,
                                                      const Tensor& grad_squares) {
  Tensor grad_projection = at::empty_like(projection), grad_cross = at::empty_like(cross),
         grad_weights = at::empty_like(weights);
  for_each_sample(cross.size(0), [&](int64_t s) {
    condition_sample_backward(projection[s], cross[s], weights[s], projected[s], grad_mean[s],
                              grad_squares[s], grad_projection[s], grad_cross[s], grad_weights[s]);
  });
  return {grad_projection, grad_cross, grad_weights};
}

// The same with K_it = h exp(-|x_i - y_t|^2 / 2 l^2) formed on the way. Features are centred first,
// which changes no distance and limits cancellation. The scaled features are kept for the gradient.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_condition_forward(
    const Tensor& projection, const Tensor& left, const Tensor& right, double log_height,
    double log_lengthscale, const Tensor& weights) {
  const auto batch = left.size(0), inducing = left.size(1), rows = right.size(1);
  const auto width = left.size(2);
  Tensor cross = like(left, {batch, inducing, rows});
  Tensor projected = like(left, {batch, inducing + weights.size(2), rows});
  Tensor mean = like(left, {batch, rows, weights.size(2)});
  Tensor squares = like(left, {batch, rows});
  Tensor scaled_left = at::empty_like(left), scaled_right = at::empty_like(right);
  for_each_sample(batch, [&](int64_t s) {
    Tensor cross_s = cross[s], a = scaled_left[s], b = scaled_right[s];
    Tensor scratch = like(left, {inducing + rows + width});
    AT_DISPATCH_FLOATING_TYPES(left.scalar_type(), "gaussian", [&] {
      const scalar_t factor = static_cast<scalar_t>(std::exp(-log_lengthscale));
      scalar_t* norms = scratch.data_ptr<scalar_t>();
      scalar_t* centre = norms + inducing + rows;
      scalar_t *a_data = a.data_ptr<scalar_t>(), *b_data = b.data_ptr<scalar_t>();
      const scalar_t* x = left[s].const_data_ptr<scalar_t>();
      mean_row(x, centre, inducing, width);
      centre_and_scale(x, centre, factor, a_data, inducing, width);
      centre_and_scale(right[s].const_data_ptr<scalar_t>(), centre, factor, b_data, rows, width);
      half_squared_norms(a_data, norms, inducing, width);
      half_squared_norms(b_data, norms + inducing, rows, width);
      at::mm_out(cross_s, a, b.t());
      gaussian_in_place(cross_s.data_ptr<scalar_t>(), norms, norms + inducing,
                        static_cast<scalar_t>(log_height), inducing, rows);
    });
    condition_sample(projection[s], cross_s, weights[s], projected[s], mean[s], squares[s]);
  });
  return {mean, squares, cross, projected, scaled_left, scaled_right};
}

// With E the exponent and dE = gK * K: gradients of the scaled features are those of a product,
// less each row times the sum of its dE; the gradient of log h is the sum of all dE; E - log h is
// homogeneous of degree two, so the gradient of log l is minus the sum of features times theirs.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gaussian_condition_backward(
    const Tensor& projection, const Tensor& scaled_left, const Tensor& scaled_right,
    const Tensor& weights, const Tensor& cross, const Tensor& projected, double log_lengthscale,
    const Tensor& grad_mean, const Tensor& grad_squares) {
  const auto batch = scaled_left.size(0), inducing = scaled_left.size(1);
  const auto rows = scaled_right.size(1), width = scaled_left.size(2);
  Tensor grad_projection = at::empty_like(projection), grad_left = at::empty_like(scaled_left),
         grad_right = at::empty_like(scaled_right), grad_weights = at::empty_like(weights);
  Tensor grad_scalars = like(scaled_left, {batch, 2});
  for_each_sample(batch, [&](int64_t s) {
    Tensor cross_s = cross[s], a = scaled_left[s], b = scaled_right[s];
    Tensor grad_cross = at::empty_like(cross_s);
    Tensor grad_a = grad_left[s], grad_b = grad_right[s];
    Tensor sums = like(scaled_left, {inducing + rows});
    condition_sample_backward(projection[s], cross_s, weights[s], projected[s], grad_mean[s],
                              grad_squares[s], grad_projection[s], grad_cross, grad_weights[s]);
    AT_DISPATCH_FLOATING_TYPES(cross_s.scalar_type(), "gaussian_backward", [&] {
      const scalar_t factor = static_cast<scalar_t>(std::exp(-log_lengthscale));
      scalar_t *row_sums = sums.data_ptr<scalar_t>(), *column_sums = row_sums + inducing;
      multiply_and_sum(grad_cross.data_ptr<scalar_t>(), cross_s.const_data_ptr<scalar_t>(), row_sums,
                       column_sums, inducing, rows);
      at::mm_out(grad_a, grad_cross, b);
      grad_b.copy_(at::mm(a.t(), grad_cross).t());  // wide products are faster than narrow ones
      const scalar_t *a_data = a.const_data_ptr<scalar_t>(), *b_data = b.const_data_ptr<scalar_t>();
      scalar_t *ga = grad_a.data_ptr<scalar_t>(), *gb = grad_b.data_ptr<scalar_t>();
      subtract_scaled_rows(ga, row_sums, a_data, inducing, width);
      subtract_scaled_rows(gb, column_sums, b_data, rows, width);
      scalar_t* scalars = grad_scalars.data_ptr<scalar_t>() + 2 * s;
      scalars[0] = 0;
      for (int64_t i = 0; i < inducing; ++i) scalars[0] += row_sums[i];
      scalars[1] = -scale_and_dot(ga, a_data, factor, inducing * width);
      scalars[1] -= scale_and_dot(gb, b_data, factor, rows * width);
    });
  });
  return {grad_projection, grad_left, grad_right, grad_scalars, grad_weights};
}

// K = h exp(-|x_i - x_j|^2 / 2 l^2), exactly symmetric, with h on the diagonal.
std::tuple<Tensor, Tensor> gaussian_square_forward(const Tensor& features, double log_height,
                                                   double log_lengthscale) {
  const auto batch = features.size(0), size = features.size(1), width = features.size(2);
  Tensor kernel = like(features, {batch, size, size}), scaled = at::empty_like(features);
  for_each_sample(batch, [&](int64_t s) {
    Tensor kernel_s = kernel[s], own = scaled[s];
    Tensor scratch = like(features, {size + width});
    AT_DISPATCH_FLOATING_TYPES(features.scalar_type(), "gaussian_square", [&] {
      scalar_t *norms = scratch.data_ptr<scalar_t>(), *centre = norms + size;
      scalar_t *k = kernel_s.data_ptr<scalar_t>(), *a = own.data_ptr<scalar_t>();
      const scalar_t* x = features[s].const_data_ptr<scalar_t>();
      mean_row(x, centre, size, width);
      centre_and_scale(x, centre, static_cast<scalar_t>(std::exp(-log_lengthscale)), a, size,
                       width);
      half_squared_norms(a, norms, size, width);
      at::mm_out(kernel_s, own, own.t());
      gaussian_in_place(k, norms, norms, static_cast<scalar_t>(log_height), size, size);
      const scalar_t height = std::exp(static_cast<scalar_t>(log_height));
      for (int64_t i = 0; i < size; ++i) {
        for (int64_t j = 0; j < i; ++j) k[j * size + i] = k[i * size + j];
        k[i * size + i] = height;
      }
    });
  });
  return {kernel, scaled};
}

std::tuple<Tensor, Tensor> gaussian_square_backward(const Tensor& scaled, const Tensor& kernel,
                                                    double log_lengthscale,
                                                    const Tensor& grad_kernel) {
  const auto batch = scaled.size(0), size = scaled.size(1), width = scaled.size(2);
  Tensor grad_features = at::empty_like(scaled), grad_scalars = like(scaled, {batch, 2});
  for_each_sample(batch, [&](int64_t s) {
    Tensor own = scaled[s], out = grad_features[s];
    Tensor scratch = like(scaled, {size, size}), sums = like(scaled, {size});
    AT_DISPATCH_FLOATING_TYPES(scaled.scalar_type(), "gaussian_square_backward", [&] {
      const scalar_t* k = kernel[s].const_data_ptr<scalar_t>();
      const scalar_t* g = grad_kernel[s].const_data_ptr<scalar_t>();
      scalar_t *both = scratch.data_ptr<scalar_t>(), *row_sums = sums.data_ptr<scalar_t>();
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
      at::mm_out(out, scratch, own);
      const scalar_t* a = own.const_data_ptr<scalar_t>();
      subtract_scaled_rows(out.data_ptr<scalar_t>(), row_sums, a, size, width);
      scalar_t* scalars = grad_scalars.data_ptr<scalar_t>() + 2 * s;
      scalars[0] = scalar_t(0.5) * total;
      scalars[1] = -scale_and_dot(out.data_ptr<scalar_t>(), a,
                                  static_cast<scalar_t>(std::exp(-log_lengthscale)), size * width);
    });
  });
  return {grad_features, grad_scalars};
}

// Below this size plain loops over rows beat LAPACK, whose calls cost more than their work.
constexpr int64_t kSmall = 192;

// Row-oriented U^T U factorisation of a small matrix, then L = U^T. Returns 0, or the pivot that
// was not positive.
template <typename T>
int32_t small_cholesky(const T* matrix, T* __restrict upper, T* __restrict lower, int64_t size) {
  std::copy(matrix, matrix + size * size, upper);
  for (int64_t k = 0; k < size; ++k) {
    T* __restrict pivot_row = upper + k * size;
    const T pivot = pivot_row[k];
    if (!(pivot > T(0)) || !std::isfinite(pivot)) return static_cast<int32_t>(k + 1);
    const T scale = T(1) / std::sqrt(pivot);
    for (int64_t j = k; j < size; ++j) pivot_row[j] *= scale;
    for (int64_t i = k + 1; i < size; ++i) {
      const T factor = pivot_row[i];
      T* __restrict row = upper + i * size;
      for (int64_t j = i; j < size; ++j) row[j] -= factor * pivot_row[j];
    }
  }
  for (int64_t i = 0; i < size; ++i) {
    for (int64_t j = 0; j <= i; ++j) lower[i * size + j] = upper[j * size + i];
    std::fill(lower + i * size + i + 1, lower + (i + 1) * size, T(0));
  }
  return 0;
}

// Row i of the inverse is (e_i - sum_{k<i} L_ik row_k) / L_ii.
template <typename T>
void small_triangular_inverse(const T* __restrict lower, T* __restrict inverse, int64_t size) {
  for (int64_t i = 0; i < size; ++i) {
    T* __restrict row = inverse + i * size;
    std::fill(row, row + size, T(0));
    for (int64_t k = 0; k < i; ++k) {
      const T factor = lower[i * size + k];
      const T* __restrict other = inverse + k * size;
      for (int64_t j = 0; j <= k; ++j) row[j] -= factor * other[j];
    }
    const T scale = T(1) / lower[i * size + i];
    for (int64_t j = 0; j < i; ++j) row[j] *= scale;
    row[i] = scale;
  }
}

Tensor triangular_inverse(const Tensor& lower) {
  const int64_t size = lower.size(-1);
  Tensor inverse = at::empty_like(lower);
  Tensor identity = size > kSmall ? at::eye(size, lower.options()) : Tensor();
  for_each_sample(lower.size(0), [&](int64_t s) {
    if (size > kSmall) {
      inverse[s].copy_(at::linalg_solve_triangular(lower[s], identity, false));
      return;
    }
    AT_DISPATCH_FLOATING_TYPES(lower.scalar_type(), "triangular_inverse", [&] {
      small_triangular_inverse(lower[s].const_data_ptr<scalar_t>(),
                               inverse[s].data_ptr<scalar_t>(), size);
    });
  });
  return inverse;
}

// Lower factors, and per sample 0 or the index of the pivot that failed.
std::tuple<Tensor, Tensor> cholesky(const Tensor& matrix) {
  const int64_t size = matrix.size(-1);
  Tensor lower = at::empty_like(matrix);
  Tensor info = at::empty({matrix.size(0)}, matrix.options().dtype(at::kInt));
  for_each_sample(matrix.size(0), [&](int64_t s) {
    if (size > kSmall) {
      auto [factor, status] = at::linalg_cholesky_ex(matrix[s]);
      lower[s].copy_(factor);
      info[s].copy_(status);
      return;
    }
    Tensor upper = at::empty_like(matrix[s]);
    AT_DISPATCH_FLOATING_TYPES(matrix.scalar_type(), "cholesky", [&] {
      info.data_ptr<int32_t>()[s] =
          small_cholesky(matrix[s].const_data_ptr<scalar_t>(), upper.data_ptr<scalar_t>(),
                         lower[s].data_ptr<scalar_t>(), size);
    });
  });
  return {lower, info};
}

// The lower triangle of A^T B (transposed) or A B^T, for lower-triangular A and B.
void lower_products(Tensor out, const Tensor& a, const Tensor& b, bool transpose_first, double sign,
                    bool accumulate) {
  const int64_t size = a.size(0), half = size / 2, rest = size - half;
  auto product = [&](Tensor target, const Tensor& x, const Tensor& y, bool add) {
    target.addmm_(x, y, add ? 1 : 0, sign);
  };
  if (size < kSmallestSplit) {
    product(out, transpose_first ? a.t() : a, transpose_first ? b : b.t(), accumulate);
    return;
  }
  Tensor out11 = block(out, 0, half, 0, half), out21 = block(out, half, rest, 0, half),
         out22 = block(out, half, rest, half, rest);
  if (transpose_first) {  // (A^T B)_ij sums over k >= max(i, j)
    product(out11, a.narrow(1, 0, half).t(), b.narrow(1, 0, half), accumulate);
    product(out21, block(a, half, rest, half, rest).t(), block(b, half, rest, 0, half), accumulate);
    product(out22, block(a, half, rest, half, rest).t(), block(b, half, rest, half, rest),
            accumulate);
  } else {  // (A B^T)_ij, i >= j, sums over k <= j
    product(out11, block(a, 0, half, 0, half), block(b, 0, half, 0, half).t(), accumulate);
    product(out21, block(a, half, rest, 0, half), block(b, 0, half, 0, half).t(), accumulate);
    product(out22, a.narrow(0, half, rest), b.narrow(0, half, rest).t(), accumulate);
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
void sandwich(Tensor out, const Tensor& inverse, const Tensor& symmetric, Tensor scratch) {
  const int64_t size = inverse.size(0), half = size / 2, rest = size - half;
  if (size < kSmallestSplit) {
    at::mm_out(scratch, symmetric, inverse);
    at::mm_out(out, inverse.t(), scratch);
    return;
  }
  Tensor left = scratch.narrow(1, 0, half), right = scratch.narrow(1, half, rest);
  Tensor last = block(inverse, half, rest, half, rest);
  at::mm_out(left, symmetric, inverse.narrow(1, 0, half));
  at::mm_out(right, symmetric.narrow(1, half, rest), last);
  Tensor out11 = block(out, 0, half, 0, half), out21 = block(out, half, rest, 0, half),
         out22 = block(out, half, rest, half, rest);
  at::mm_out(out11, inverse.narrow(1, 0, half).t(), left);
  at::mm_out(out21, last.t(), left.narrow(0, half, rest));
  at::mm_out(out22, last.t(), right.narrow(0, half, rest));
  block(out, 0, half, half, rest).copy_(out21.t());
}

Tensor cholesky_backward(const Tensor& lower, const Tensor& inverse,
                         const std::optional<Tensor>& grad_lower,
                         const std::optional<Tensor>& grad_inverse) {
  Tensor result = at::empty_like(inverse);
  const int64_t size = inverse.size(-1);
  for_each_sample(inverse.size(0), [&](int64_t s) {
    Tensor inverse_s = inverse[s], middle = at::empty_like(inverse_s),
           scratch = at::empty_like(inverse_s);
    if (grad_lower) lower_products(middle, lower[s], (*grad_lower)[s], true, 1.0, false);
    if (grad_inverse)
      lower_products(middle, (*grad_inverse)[s], inverse_s, false, -1.0, grad_lower.has_value());
    AT_DISPATCH_FLOATING_TYPES(middle.scalar_type(), "halve_and_mirror",
                               [&] { halve_and_mirror(middle.data_ptr<scalar_t>(), size); });
    sandwich(result[s], inverse_s, middle, scratch);
  });
  return result;
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
      "(Tensor, Tensor, Tensor, Tensor, Tensor)",
      gaussian_condition_backward);
  library.def(
      "gaussian_square_forward(Tensor features, float log_height, float log_lengthscale) -> "
      "(Tensor, Tensor)",
      gaussian_square_forward);
  library.def(
      "gaussian_square_backward(Tensor scaled, Tensor kernel, float log_lengthscale, Tensor grad) "
      "-> (Tensor, Tensor)",
      gaussian_square_backward);
  library.def("triangular_inverse(Tensor lower) -> Tensor", triangular_inverse);
  library.def("cholesky(Tensor matrix) -> (Tensor, Tensor)", cholesky);
  library.def(
      "cholesky_backward(Tensor lower, Tensor inverse, Tensor? grad_lower, Tensor? grad_inverse) "
      "-> Tensor",
      cholesky_backward);
}
