// A draw from the generalised singular Wishart, scored by it and by a Wishart prior; derivation in
// operations/wishart.py.

#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <tuple>

#include "bartlett.h"
#include "factors.h"
#include "rows.h"
#include "support.h"

namespace {

// What a root and its gradient need: with prior scale S = L L^T and posterior scale R R^T, these are
// H = L^-1, R, the root F = R A, w = H F, the form G of rows (H, or S^-1 where kSquared), S^-1 F, and
// nu log(|R| / |L|) - |w|^2 / 2 for each group of columns. Failed samples are undefined. With a weight
// q, the posterior scale is (1 - q) S + q V V^T, for the root V that is given in its place.
struct Root {
  Tensor inverse, mixed_lower, root, weights, form, solved, log_density, failed;
};

// (1 - q) a + q b, in double precision.
template <typename T>
void blend(const T* a, const T* b, double q, double* out, int64_t count) {
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + q * (double(b[i]) - double(a[i]));
}

Root draw_root(const Tensor& prior, const Tensor& posterior, const std::optional<double>& weight,
               const Tensor& factor, double degrees, int64_t groups) {
  const int64_t batch = prior.size(0), size = prior.size(1), width = factor.size(2);
  const int64_t all = size * size, own_width = width / groups;
  const bool squared = prior.scalar_type() == at::kDouble;
  Root out;
  out.inverse = at::empty_like(prior);
  out.mixed_lower = at::empty_like(prior);
  out.form = squared ? at::empty_like(prior) : out.inverse;
  out.root = at::empty_like(factor);
  out.weights = at::empty_like(factor);
  out.solved = at::empty_like(factor);
  out.log_density = like(prior, {batch, groups});
  out.failed = at::zeros({batch}, at::kInt);
  const Tensor learned = weight ? at::mm(posterior, posterior.t()) : posterior;
  for_each_sample(prior, [&]<typename T>(T, int64_t s) {
    // Factors are computed in double precision whatever the dtype. In single precision their
    // rounding is as large as the jitter, and the density depends on every small pivot.
    Scratch<double> scratch(3 * all);
    double *exact = scratch.data(), *lower = exact + all, *other = lower + all;
    T *H = into<T>(out.inverse, s), *R = into<T>(out.mixed_lower, s);
    T *F = into<T>(out.root, s), *w = into<T>(out.weights, s), *CF = into<T>(out.solved, s);
    int32_t& failed = out.failed.data_ptr<int32_t>()[s];
    std::copy_n(from<T>(prior, s), all, exact);
    if ((failed = factorise(exact, lower, size)) != 0) return;
    invert_lower(lower, other, size);
    std::copy_n(other, all, H);
    double volume = -sum_log_diagonal(lower, size);
    if (weight)
      blend(from<T>(prior, s), from<T>(learned), *weight, exact, all);
    else
      std::copy_n(from<T>(posterior, s), all, exact);
    if ((failed = factorise(exact, other, size)) != 0) return;
    std::copy_n(other, all, R);
    volume += sum_log_diagonal(other, size);
    gemm<T>(false, false, size, width, size, 1, R, size, from<T>(factor, s), width, 0, F, width);
    gemm<T>(false, false, size, width, size, 1, H, size, F, width, 0, w, width);
    gemm<T>(true, false, size, width, size, 1, H, size, w, width, 0, CF, width);
    if (kSquared<T>) inner_product(H, into<T>(out.form, s), size);
    for (int64_t g = 0; g < groups; ++g) {
      double squares = 0;
      for (int64_t i = 0; i < size; ++i)
#pragma omp simd reduction(+ : squares)
        for (int64_t j = g * own_width; j < (g + 1) * own_width; ++j)
          squares += double(w[i * width + j]) * w[i * width + j];
      into<T>(out.log_density, s)[g] = static_cast<T>(degrees * volume - 0.5 * squares);
    }
  });
  return out;
}

// Gradients of the prior's and the posterior's scale, of q where they are mixed, and of A, for incoming
// gF and gd and, where rows use them, gH and gw. Where they are mixed, that of V in place of the
// posterior's scale.
std::tuple<Tensor, Tensor, Tensor, Tensor> draw_root_backward(
    const std::optional<Tensor>& prior, const std::optional<Tensor>& learned,
    const std::optional<double>& weight, const Tensor& factor, double degrees,
    const Tensor& inverse, const Tensor& mixed_lower, const Tensor& weights, const Tensor& form,
    const Tensor& solved, const Tensor& grad_root, const Tensor& grad_density,
    const std::optional<Tensor>& grad_inverse, const std::optional<Tensor>& grad_weights) {
  const int64_t size = inverse.size(1), width = factor.size(2);
  const int64_t all = size * size, narrow = size * width;
  const int64_t groups = grad_density.size(1), own_width = width / groups;
  Tensor grad_prior = at::empty_like(inverse), grad_posterior = at::empty_like(inverse),
         grad_factor = at::empty_like(factor),
         grad_weight = like(inverse, {weight ? inverse.size(0) : 0});
  for_each_sample(inverse, [&]<typename T>(T, int64_t s) {
    Scratch<T> scratch(3 * all + 2 * narrow);
    T *middle = scratch.data(), *products = middle + all, *mixed_inverse = products + all;
    T *along = mixed_inverse + all, *weighted = along + narrow;
    const T *H = from<T>(inverse, s), *R = from<T>(mixed_lower, s), *A = from<T>(factor, s);
    const T *CF = from<T>(solved, s), *C = from<T>(form, s), *gd = from<T>(grad_density, s);
    const T *gF = from<T>(grad_root, s), *gw = grad_weights ? from<T>(*grad_weights, s) : nullptr;
    T *gA = into<T>(grad_factor, s), *g = into<T>(grad_prior, s);

    // The density's own slopes: -gd C F for F, and (C F gd (C F)^T - nu gd C) / 2 for S.
    T volume = 0;
    for (int64_t j = 0; j < groups; ++j) volume += static_cast<T>(degrees) * gd[j];
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < width; ++j)
        weighted[i * width + j] = gd[j / own_width] * CF[i * width + j];
    if (!kSquared<T>) {
      inner_product(H, products, size);
      C = products;
    }
    for (int64_t i = 0; i < all; ++i) g[i] = T(-0.5) * volume * C[i];
    gemm<T>(false, true, size, size, width, T(0.5), weighted, width, CF, width, 1, g, size);

    for (int64_t i = 0; i < narrow; ++i) along[i] = gF[i] - weighted[i];
    if (gw) gemm<T>(true, false, size, width, size, 1, H, size, gw, width, 1, along, width);
    gemm<T>(true, false, size, width, size, 1, R, size, along, width, 0, gA, width);
    gemm<T>(false, true, size, size, width, 1, gA, width, A, width, 0, middle, size);
    for (int64_t i = 0; i < size; ++i) middle[i * size + i] += volume;
    halve_and_mirror(middle, size);
    invert_lower(R, mixed_inverse, size);
    T* gq = into<T>(grad_posterior, s);
    sandwich(mixed_inverse, middle, products, gq, size);
    if (weight) {  // (1 - q) gq goes to S, and -gq S to q
      const T *S = from<T>(*prior, s), rest = static_cast<T>(1.0 - *weight);
      T along_q = 0;
#pragma omp simd reduction(- : along_q)
      for (int64_t i = 0; i < all; ++i) {
        along_q -= gq[i] * S[i];
        g[i] += rest * gq[i];
      }
      into<T>(grad_weight, s)[0] = along_q;
    }

    if (grad_inverse || gw) {
      std::fill_n(middle, all, T(0));
      if (grad_inverse)
        lower_products<T>(false, from<T>(*grad_inverse, s), H, -1, 0, middle, size);
      if (gw)
        gemm<T>(false, true, size, size, width, -1, gw, width, from<T>(weights, s), width, 1, middle,
                size);
      halve_and_mirror(middle, size);
      sandwich(H, middle, products, mixed_inverse, size);
      for (int64_t i = 0; i < all; ++i) g[i] += mixed_inverse[i];
    }
  });
  if (weight) {  // gq is symmetric: 2 q gq V goes to V, and gq V V^T to q
    const Tensor product = at::mm(sum_samples(grad_posterior), *learned);
    grad_weight = grad_weight.sum() + at::dot(product.view(-1), learned->view(-1));
    grad_posterior = product.mul_(2.0 * *weight);
  }
  return {grad_prior, grad_posterior, grad_weight, grad_factor};
}

// The number in a scalar tensor that may be missing.
std::optional<double> number_in(const std::optional<Tensor>& scalar) {
  return scalar ? std::optional<double>(scalar->item<double>()) : std::nullopt;
}

// Samples side by side, (S, P, m) to (1, P, S m), for scales that all samples share; and back.
Tensor fold(const Tensor& samples) {
  return samples.transpose(0, 1).reshape({1, samples.size(1), -1}).contiguous();
}

Tensor unfold(const Tensor& columns, int64_t samples) {
  return columns.reshape({columns.size(1), samples, -1}).transpose(0, 1).contiguous();
}

// Both scale matrices, one for all samples or one for each; of one to be mixed in, its root.
void check_scales(const Tensor& prior, const Tensor& posterior, const Tensor& epsilon, bool mixed) {
  check_square(prior, "the prior's scale");
  last_size(epsilon, 3, "the noise");
  check_shape(epsilon, epsilon.sizes(), "the noise");
  const int64_t batch = prior.size(0), samples = epsilon.size(0), size = epsilon.size(1);
  check_shape(prior, {batch, size, size}, "the prior's scale");
  if (mixed)
    check_shape(posterior, {size, size}, "the learned root");
  else
    check_shape(posterior, {batch, size, size}, "the posterior's scale");
  TORCH_CHECK(batch == 1 || batch == samples, "deepwishart: ", batch, " scales for ", samples,
              " samples");
}

void check_factor(const Tensor& gamma, const Tensor& concentration, const Tensor& rate,
                  const Tensor& deviation, const Tensor& epsilon,
                  const std::optional<Tensor>& row_mixing,
                  const std::optional<Tensor>& column_mixing) {
  const int64_t samples = epsilon.size(0), size = epsilon.size(1), rank = epsilon.size(2);
  TORCH_CHECK(rank <= size, "deepwishart: a Bartlett factor of ", size, " rows has no ", rank,
              " columns");
  check_shape(gamma, {samples, rank}, "gamma");
  for (const Tensor* t : {&concentration, &rate}) check_shape(*t, {rank}, "a gamma parameter");
  check_shape(deviation, {size, rank}, "a normal parameter");
  check_shape(row_mixing, {size, size}, "the row mixing");
  check_shape(column_mixing, {rank, rank}, "the column mixing");
}

// A Bartlett factor T, A = R_mix T C_mix where there is mixing, and the root of the above. Returns
// F, log p - log q up to a constant, H, w, and for rows and the gradient S^-1 (or H), S^-1 F, T, A
// (empty where it is T) and R.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>
wishart_draw_forward(const Tensor& prior, const Tensor& posterior,
                     const std::optional<Tensor>& weight, const Tensor& gamma,
                     const Tensor& concentration, const Tensor& rate, const Tensor& loc,
                     const Tensor& deviation, const Tensor& epsilon,
                     const std::optional<Tensor>& row_mixing,
                     const std::optional<Tensor>& column_mixing, double degrees) {
  check_scales(prior, posterior, epsilon, weight.has_value());
  check_factor(gamma, concentration, rate, deviation, epsilon, row_mixing, column_mixing);
  check_shape(loc, deviation.sizes(), "a normal parameter");
  const int64_t samples = epsilon.size(0), size = epsilon.size(1), batch = prior.size(0);
  auto [bartlett, log_q] = scored_factor_forward(gamma, concentration, rate, loc, deviation,
                                                 epsilon, degrees - static_cast<double>(size) - 1);
  Tensor factor = bartlett;
  if (column_mixing) factor = at::matmul(factor, *column_mixing);
  if (row_mixing) factor = at::matmul(*row_mixing, factor);
  const bool shared = batch == 1;
  factor = shared ? fold(factor) : factor.contiguous();
  Root out = draw_root(prior, posterior, number_in(weight), factor, degrees, shared ? samples : 1);
  if (out.failed.any().item<bool>()) out.log_density.fill_(NAN);
  const Tensor log_ratio = out.log_density.reshape({samples}) - log_q;
  return {shared ? unfold(out.root, samples) : out.root,
          log_ratio,
          out.inverse,
          shared ? unfold(out.weights, samples) : out.weights,
          out.form.is_same(out.inverse) ? out.inverse.clone() : out.form,
          out.solved,
          bartlett,
          factor.is_same(bartlett)       ? like(bartlett, {0})
          : factor.is_alias_of(bartlett) ? factor.clone()
                                         : factor,
          out.mixed_lower,
          out.failed};
}

// R^-T (d log q / dT) C^-T, the slope of the factor's density along A = R T C.
Tensor unmixed_slope(const Tensor& bartlett, const Tensor& concentration, const Tensor& rate,
                     const Tensor& deviation, const Tensor& epsilon,
                     const std::optional<Tensor>& row_mixing,
                     const std::optional<Tensor>& column_mixing) {
  const int64_t size = bartlett.size(1), rank = bartlett.size(2);
  const Tensor diagonal = bartlett.diagonal(0, 1, 2);
  const Tensor beyond = at::arange(size - 1, size - 1 - rank, -1, rate.options());
  const Tensor power = 2.0 * (concentration - 1.0) - beyond;
  Tensor slope = (-epsilon / deviation).tril(-1);
  slope.diagonal(0, 1, 2).copy_(power / diagonal - 2.0 * rate * diagonal);
  if (row_mixing) slope = at::linalg_solve_triangular(row_mixing->t(), slope, true);
  if (column_mixing) slope = at::linalg_solve_triangular(column_mixing->t(), slope, true, false);
  return slope;
}

// Gradients of prior and posterior scale, of the weight, gamma, alpha, beta, mu, sigma and the mixing
// matrices. With the landing stuck to, the density's own dependence on its parameters is left out.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor>
wishart_draw_backward(const std::optional<Tensor>& prior, const std::optional<Tensor>& learned,
                      const std::optional<Tensor>& weight, const Tensor& gamma,
                      const Tensor& concentration, const Tensor& rate, const Tensor& deviation,
                      const Tensor& epsilon,
                      const std::optional<Tensor>& row_mixing,
                      const std::optional<Tensor>& column_mixing, double degrees, bool sticking,
                      const Tensor& inverse, const Tensor& weights, const Tensor& form,
                      const Tensor& solved, const Tensor& bartlett,
                      const std::optional<Tensor>& mixed_factor, const Tensor& mixed_lower,
                      const Tensor& grad_root, const Tensor& grad_ratio,
                      const std::optional<Tensor>& grad_inverse,
                      const std::optional<Tensor>& grad_weights) {
  check_scales(inverse, mixed_lower, epsilon, false);
  TORCH_CHECK(!weight || (prior && learned), "deepwishart: the scales that are mixed are missing");
  check_shape(prior, inverse.sizes(), "the prior's scale");
  check_shape(learned, {inverse.size(1), inverse.size(1)}, "the learned root");
  check_factor(gamma, concentration, rate, deviation, epsilon, row_mixing, column_mixing);
  const int64_t samples = epsilon.size(0), size = epsilon.size(1);
  const bool shared = inverse.size(0) == 1;
  const Tensor factor = mixed_factor.value_or(bartlett);
  check_shape(form, inverse.sizes(), "the form");
  for (const Tensor* t : {&weights, &bartlett, &grad_root})
    check_shape(*t, epsilon.sizes(), "a root");
  for (const Tensor* t : {&solved, &factor})
    check_shape(*t, {inverse.size(0), size, epsilon.numel() / (inverse.size(0) * size)},
                "a product with the root");
  check_shape(grad_ratio, {samples}, "the ratio's gradient");
  check_shape(grad_inverse, inverse.sizes(), "the inverse factor's gradient");
  check_shape(grad_weights, epsilon.sizes(), "the weights' gradient");
  const auto folded = [shared](const Tensor& t) { return shared ? fold(t) : t.contiguous(); };
  std::optional<Tensor> gw;
  if (grad_weights) gw = folded(*grad_weights);
  const Tensor ratio = grad_ratio.contiguous();
  auto [grad_prior, grad_posterior, grad_weight, columns] = draw_root_backward(
      prior, learned, number_in(weight), factor, degrees, inverse, mixed_lower, folded(weights),
      form, solved, folded(grad_root),
      shared ? ratio.reshape({1, samples}) : ratio.reshape({samples, 1}), grad_inverse, gw);
  Tensor grad_factor = shared ? unfold(columns, samples) : columns;
  const double tilt = degrees - static_cast<double>(size) - 1;
  Tensor slope = -ratio, density_slope = sticking ? slope : at::zeros_like(slope);
  Tensor grad_row_mixing = at::empty({0}, rate.options()),
         grad_column_mixing = at::empty({0}, rate.options());
  if (row_mixing || column_mixing) {
    if (sticking) {  // the density is that of T = R^-1 A C^-1, R and C held fixed
      grad_factor = grad_factor + unmixed_slope(bartlett, concentration, rate, deviation, epsilon,
                                                row_mixing, column_mixing) *
                                      slope.view({-1, 1, 1});
    }
    if (row_mixing) {
      const Tensor mixed = column_mixing ? at::matmul(bartlett, *column_mixing) : bartlett;
      grad_row_mixing = at::mm(fold(grad_factor)[0], fold(mixed)[0].t());
      grad_factor = at::matmul(row_mixing->t(), grad_factor);
    }
    if (column_mixing) {
      grad_column_mixing = at::bmm(bartlett.transpose(1, 2), grad_factor).sum(0);
      grad_factor = at::matmul(grad_factor, column_mixing->t());
    }
    if (sticking) {  // what is left is the prior's power of the diagonal
      grad_factor = grad_factor.contiguous();
      grad_factor.diagonal(0, 1, 2) -=
          tilt * slope.unsqueeze(1) / bartlett.diagonal(0, 1, 2);
      slope = density_slope = at::zeros_like(slope);
    }
  }
  auto [grad_gamma, grad_rate, grad_loc, grad_deviation] =
      scored_factor_backward(gamma, concentration, rate, deviation, epsilon, tilt,
                             grad_factor.contiguous(), slope, density_slope);
  Tensor grad_concentration = at::zeros_like(concentration);
  if (!sticking) {
    grad_deviation -= (slope.sum() / deviation).tril(-1);
    grad_rate += (slope.unsqueeze(1) * (concentration - gamma)).sum(0) / rate;
    grad_concentration = (slope.unsqueeze(1) * (gamma.log() - concentration.digamma())).sum(0);
  }
  return {grad_prior,         grad_posterior, grad_weight, grad_gamma,     grad_concentration,
          grad_rate,          grad_loc,       grad_deviation, grad_row_mixing, grad_column_mixing};
}

}  // namespace
