// Memory, threads over samples, and products.

#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
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

// Calls function(zero) with a zero of the tensor's dtype.
template <typename Function>
void with_dtype(const Tensor& tensor, const Function& function) {
  tensor.scalar_type() == at::kDouble ? function(0.0) : function(0.0f);
}

// Calls function(zero, i) for i = 0, ..., count - 1 on several threads, zero as above.
template <typename Function>
void for_each(const Tensor& tensor, int64_t count, const Function& function) {
  with_dtype(tensor, [&](auto zero) {
    at::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
      at::NoGradGuard no_grad;  // grad mode is thread-local
      for (int64_t i = begin; i < end; ++i) function(zero, i);
    });
  });
}

// The same for every sample of a tensor.
template <typename Function>
void for_each_sample(const Tensor& tensor, const Function& function) {
  for_each(tensor, tensor.size(0), function);
}

// Where a sample begins in a contiguous tensor, to read and to write.
template <typename T>
const T* from(const Tensor& tensor, int64_t sample = 0) {
  return tensor.const_data_ptr<T>() + sample * tensor.stride(0);
}

template <typename T>
T* into(const Tensor& tensor, int64_t sample = 0) {
  return tensor.data_ptr<T>() + sample * tensor.stride(0);
}

// Native code trusts nobody: a wrong shape is an error here and a crash further down.
void check_shape(const Tensor& tensor, at::IntArrayRef shape, const char* name) {
  TORCH_CHECK(tensor.sizes() == shape, "deepwishart: ", name, " has shape ", tensor.sizes(),
              " instead of ", shape);
  TORCH_CHECK(tensor.numel() > 0, "deepwishart: ", name, " is empty, with shape ", tensor.sizes());
  TORCH_CHECK(tensor.is_contiguous(), "deepwishart: ", name, " is not contiguous");
  TORCH_CHECK(tensor.scalar_type() == at::kDouble || tensor.scalar_type() == at::kFloat,
              "deepwishart: ", name, " is neither float32 nor float64");
}

void check_shape(const std::optional<Tensor>& tensor, at::IntArrayRef shape, const char* name) {
  if (tensor) check_shape(*tensor, shape, name);
}

// The size of the last dimension of a tensor that has to have so many.
int64_t last_size(const Tensor& tensor, int64_t dimensions, const char* name) {
  TORCH_CHECK(tensor.dim() == dimensions, "deepwishart: ", name, " has shape ", tensor.sizes(),
              " instead of one with ", dimensions, " dimensions");
  return tensor.size(-1);
}

void check_square(const Tensor& tensor, const char* name) {
  TORCH_CHECK(tensor.dim() == 3 && tensor.numel() > 0, "deepwishart: ", name, " has shape ",
              tensor.sizes(), " instead of (batch, size, size)");
  check_shape(tensor, {tensor.size(0), tensor.size(1), tensor.size(1)}, name);
}

// Memory handed to who next asks for as much: a step frees and asks for the same blocks over and over,
// and fresh pages cost as much as what is computed in them. At most a quarter gibibyte waits, and when
// another size is asked for, what nobody has wanted for many steps goes.
class Pool {
 public:
  ~Pool() { drop(waiting_.size()); }

  void* take(size_t bytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    ++clock_;
    for (auto block = waiting_.rbegin(); block != waiting_.rend(); ++block)
      if (block->bytes == bytes) {
        void* memory = block->memory;
        waiting_.erase(std::next(block).base());
        total_ -= bytes;
        return memory;
      }
    size_t stale = 0;
    while (stale < waiting_.size() && waiting_[stale].since + kPatience < clock_) ++stale;
    drop(stale);
    return ::operator new(bytes, kAlignment);
  }

  void give_back(void* memory, size_t bytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    waiting_.push_back({memory, bytes, clock_});
    total_ += bytes;
    if (total_ > kMost) drop(waiting_.size());
  }

 private:
  struct Block {
    void* memory;
    size_t bytes, since;
  };

  // Frees those that have waited longest.
  void drop(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      total_ -= waiting_[i].bytes;
      ::operator delete(waiting_[i].memory, kAlignment);
    }
    waiting_.erase(waiting_.begin(), waiting_.begin() + count);
  }

  static constexpr size_t kMost = size_t(1) << 28, kPatience = 10000;  // bytes, and blocks taken since
  static constexpr std::align_val_t kAlignment{64};
  std::mutex mutex_;
  std::vector<Block> waiting_;  // in the order in which they came back
  size_t total_ = 0, clock_ = 0;
};

Tensor like(const Tensor& reference, at::IntArrayRef shape) {
  constexpr size_t kLarge = size_t(1) << 16;
  const size_t bytes = c10::multiply_integers(shape) * reference.element_size();
  if (bytes < kLarge) return at::empty(shape, reference.options());
  static Pool& pool = *new Pool;  // outlives every tensor
  return at::from_blob(
      pool.take(bytes), shape, [bytes](void* memory) { pool.give_back(memory, bytes); },
      reference.options());
}

Tensor like(const Tensor& reference) { return like(reference, reference.sizes()); }

// The sum over the first dimension, by which gradients of what all samples share are collected.
Tensor sum_samples(const Tensor& parts) { return parts.size(0) == 1 ? parts[0] : parts.sum(0); }

// Scratch memory that nobody clears; each thread keeps its own.
template <typename T>
class Scratch {
 public:
  explicit Scratch(int64_t count)
      : bytes_(count * sizeof(T)), data_(static_cast<T*>(pool().take(bytes_))) {}
  ~Scratch() { pool().give_back(data_, bytes_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  static Pool& pool() {
    static thread_local Pool own;
    return own;
  }
  const size_t bytes_;
  T* const data_;
};

// A block as a matrix of PyTorch's, with rows that begin so many entries apart.
template <typename T>
Tensor wrap(const T* block, int64_t rows, int64_t columns, int64_t stride = 0) {
  return at::from_blob(const_cast<T*>(block), {rows, columns}, {stride ? stride : columns, 1},
                       at::TensorOptions().dtype(c10::CppTypeToScalarType<T>::value));
}

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
  const Tensor left = transpose_a ? wrap(a, k, m, stride_a).t() : wrap(a, m, k, stride_a);
  const Tensor right = transpose_b ? wrap(b, n, k, stride_b).t() : wrap(b, k, n, stride_b);
  wrap(c, m, n, stride_c).addmm_(left, right, beta, alpha);
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

}  // namespace
