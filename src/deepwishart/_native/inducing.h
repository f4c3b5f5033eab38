// A layer at its inducing points.

#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "factors.h"
#include "rows.h"
#include "support.h"

namespace {

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

// Gradients of the above for incoming gH, gF, gw and gd (derivation in _fused): those of K, V, q
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

// Gradients of K, M and v; derivation in _fused.
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

}  // namespace
