// Squared exponential kernel matrices K = h exp(-|x_i - y_t|^2 / 2 l^2), and their gradients; derivation
// in numerics/gaussian.py.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "factors.h"
#include "loops.h"
#include "support.h"

namespace {

// Height and lengthscale.
struct Scales {
  const double log_height, log_lengthscale;

  Scales(const Tensor& height, const Tensor& lengthscale)
      : log_height(height.item<double>()), log_lengthscale(lengthscale.item<double>()) {}

  // K, and the scaled features a and b that it is made of. They are centred on the mean of x first,
  // which changes no distance and limits cancellation.
  template <typename T>
  void form(const T* x, const T* y, T* a, T* b, T* out, int64_t size, int64_t rows,
            int64_t width) const {
    Scratch<T> scratch(size + rows + width);
    T *norms = scratch.data(), *centre = norms + size + rows;
    const T factor = static_cast<T>(std::exp(-log_lengthscale));
    mean_row(x, centre, size, width);
    centre_and_scale(x, centre, factor, a, norms, size, width);
    centre_and_scale(y, centre, factor, b, norms + size, rows, width);
    gemm<T>(false, true, size, rows, width, 1, a, width, b, width, 0, out, rows);
    gaussian_in_place(out, norms, norms + size, static_cast<T>(log_height), size, rows);
  }

  // From the gradient of K, which is overwritten, those of x and y, and of log h and log l.
  template <typename T>
  void send_on(T* grad, const T* K, const T* a, const T* b, T* grad_x, T* grad_y, T* grad_scales,
               int64_t size, int64_t rows, int64_t width) const {
    Scratch<T> scratch(size + rows + rows * width);
    T *row_sums = scratch.data(), *column_sums = row_sums + size, *wide = column_sums + rows;
    multiply_and_sum(grad, K, row_sums, column_sums, size, rows);
    gemm<T>(false, false, size, width, rows, 1, grad, rows, b, width, 0, grad_x, width);
    gemm<T>(true, false, width, rows, size, 1, a, width, grad, rows, 0, wide, rows);
    transpose_into(wide, grad_y, width, rows);
    const T factor = static_cast<T>(std::exp(-log_lengthscale));
    for (int64_t i = 0; i < size; ++i) grad_scales[0] += row_sums[i];
    grad_scales[1] -= subtract_and_scale(grad_x, row_sums, a, factor, size, width);
    grad_scales[1] -= subtract_and_scale(grad_y, column_sums, b, factor, rows, width);
  }
};

// What one thread deals with: some rows of one sample. Blocks of columns t are stored one after the
// other, each with rows of its own length.
struct Part {
  int64_t sample, begin, rows;

  // Where it begins in a tensor that has so many entries for every row of a sample.
  template <typename T>
  T* in(const Tensor& tensor, int64_t entries) const {
    return into<T>(tensor, sample) + begin * entries;
  }
};

// Blocks stay in cache, and where there is only one sample threads share its rows. How many parts
// there are does not depend on threads: sums over parts have one order.
struct Parts {
  const int64_t batch, rows, each, count;

  Parts(int64_t batch, int64_t rows)
      : batch(batch),
        rows(rows),
        each(std::max<int64_t>(1, batch == 1 ? rows / 200 : (rows + 1023) / 1024)),
        count(batch * each) {}

  Part operator[](int64_t i) const {
    const int64_t k = i % each, begin = k * rows / each;
    return {i / each, begin, (k + 1) * rows / each - begin};
  }

  // What belongs to a sample is the sum over its parts.
  Tensor collect(const Tensor& found) const {
    if (each == 1) return found;
    auto shape = found.sizes().vec();
    shape[0] = batch;
    shape.insert(shape.begin() + 1, each);
    return found.view(shape).sum(1);
  }
};

void check_features(const Tensor& left, const Tensor& right, int64_t batch, int64_t size) {
  TORCH_CHECK(left.dim() == 3 && right.dim() == 3, "deepwishart: features need three dimensions");
  check_shape(left, {batch, size, left.size(2)}, "features of the inducing points");
  check_shape(right, {batch, right.size(1), left.size(2)}, "features of the rows");
}

// K_it of the rows, formed part by part where it is consumed, and kept for the gradient with its
// scaled features.
struct Cross {
  const Tensor left, right;
  const Scales scales;
  const Parts parts;
  Tensor matrix, a, b;

  Cross(const Tensor& x, const Tensor& y, const Tensor& log_height, const Tensor& log_lengthscale,
        int64_t batch, int64_t size)
      : left(x), right(y), scales(log_height, log_lengthscale), parts(batch, y.size(1)) {
    check_features(left, right, batch, size);
    matrix = like(left, {batch, size, parts.rows});
    a = like(left);
    b = like(right);
  }

  template <typename T>
  const T* form(const Part& part) const {
    const int64_t size = left.size(1), width = left.size(2);
    Scratch<T> scratch(size * width);
    T* x = part.begin == 0 ? into<T>(a, part.sample) : scratch.data();  // the first keeps it for all
    T* K = part.in<T>(matrix, size);
    scales.form<T>(from<T>(left, part.sample), part.in<T>(right, width), x, part.in<T>(b, width), K,
                   size, part.rows, width);
    return K;
  }
};

// The gradients of what it was formed of.
struct CrossGradient {
  const Scales scales;
  const Parts parts;
  const Tensor matrix, a, b;
  Tensor left, right, sums;

  CrossGradient(const Tensor& cross, const Tensor& a, const Tensor& b, const Tensor& log_height,
                const Tensor& log_lengthscale)
      : scales(log_height, log_lengthscale),
        parts(b.size(0), b.size(1)),
        matrix(cross),
        a(a),
        b(b) {
    check_features(a, b, b.size(0), a.size(1));
    check_shape(cross, {parts.batch, a.size(1), parts.rows}, "the kernel matrix of the rows");
    left = like(a, {parts.count, a.size(1), a.size(2)});
    right = like(b);
    sums = at::zeros({parts.count, 2}, a.options());
  }

  // Overwrites the gradient of K_it. Of log h there may be more.
  template <typename T>
  void send_on(T* grad, int64_t i, T more = 0) const {
    const Part part = parts[i];
    const int64_t size = a.size(1), width = a.size(2);
    T* own = into<T>(sums, i);
    own[0] = more;
    scales.send_on<T>(grad, part.in<T>(matrix, size), from<T>(a, part.sample), part.in<T>(b, width),
                      into<T>(left, i), part.in<T>(right, width), own, size, part.rows, width);
  }

  Tensor to_left() const { return parts.collect(left); }
  Tensor to_scale(int64_t index) const { return sum_samples(sums)[index].clone(); }
};

// K of the features with themselves: exactly symmetric, with h (1 + jitter) on the diagonal.
std::tuple<Tensor, Tensor> gaussian_square_forward(const Tensor& features, const Tensor& log_height,
                                                   const Tensor& log_lengthscale, double jitter) {
  const Scales scales(log_height, log_lengthscale);
  const int64_t width = last_size(features, 3, "a tensor of features"), size = features.size(1);
  check_shape(features, features.sizes(), "a tensor of features");
  Tensor kernel = like(features, {features.size(0), size, size}), scaled = like(features);
  for_each_sample(features, [&]<typename T>(T, int64_t s) {
    Scratch<T> again(size * width);
    T* K = into<T>(kernel, s);
    const T* x = from<T>(features, s);
    scales.form<T>(x, x, into<T>(scaled, s), again.data(), K, size, size, width);
    mirror(K, size);
    const T own = std::exp(static_cast<T>(scales.log_height)) * static_cast<T>(1.0 + jitter);
    for (int64_t i = 0; i < size; ++i) K[i * size + i] = own;
  });
  return {kernel, scaled};
}

std::tuple<Tensor, Tensor, Tensor> gaussian_square_backward(const Tensor& scaled,
                                                            const Tensor& kernel,
                                                            const Tensor& log_height,
                                                            const Tensor& log_lengthscale,
                                                            const Tensor& grad_kernel) {
  const Scales scales(log_height, log_lengthscale);
  const int64_t width = last_size(scaled, 3, "a tensor of features");
  const int64_t batch = scaled.size(0), size = scaled.size(1), narrow = size * width;
  check_shape(scaled, scaled.sizes(), "a tensor of features");
  for (const Tensor* t : {&kernel, &grad_kernel})
    check_shape(*t, {batch, size, size}, "the kernel matrix");
  Tensor grad_features = like(scaled), sums = at::zeros({batch, 2}, scaled.options());
  for_each_sample(scaled, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(size * size + narrow);
    T *grad = scratch.data(), *other = grad + size * size, *out = into<T>(grad_features, s);
    std::copy_n(from<T>(grad_kernel, s), size * size, grad);
    const T* a = from<T>(scaled, s);
    scales.send_on(grad, from<T>(kernel, s), a, a, out, other, into<T>(sums, s), size, size, width);
    for (int64_t i = 0; i < narrow; ++i) out[i] += other[i];
  });
  const Tensor total = sum_samples(sums);
  return {grad_features, total[0].clone(), total[1].clone()};
}

}  // namespace
