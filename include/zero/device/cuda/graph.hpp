// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Work of several streams as a CUDA graph. Includes device/cuda/stream.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <initializer_list>
#include <utility>
#include <zero/base/error.hpp>
#include <zero/base/list.hpp>
#include <zero/device/cuda/stream.hpp>

namespace zero {

/// Work that was captured once and is launched as a whole.
class CudaGraph {
 public:
  /// Nothing to launch.
  CudaGraph() = default;
  CudaGraph(CudaGraph&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  /// Takes over the graph, and frees its own.
  CudaGraph& operator=(CudaGraph&& other) noexcept {
    std::swap(work_, other.work_);
    return *this;
  }
  /// Waits for nothing: launches that run go on.
  ~CudaGraph() {
    if (work_ != nullptr) cudaGraphExecDestroy(work_);
  }

  /// Whether there is nothing to launch.
  bool empty() const { return work_ == nullptr; }

  /// Enqueues all of the work.
  ///
  /// Order:   after what `stream` was ordered after, before its later work. Launches of one graph
  ///          follow each other.
  /// Errors:  ContractError if empty(); CudaError.
  void launch(CudaStream& stream) {
    if (empty()) {
      throw ContractError(
          "CudaGraph::launch: the graph is empty. Assign what CudaCapture::end() returns.");
    }
    detail::check_cuda(cudaGraphLaunch(work_, stream.native()), "cudaGraphLaunch");
  }

  /// For calls of CUDA.
  cudaGraphExec_t native() const { return work_; }

 private:
  friend class CudaCapture;
  explicit CudaGraph(cudaGraphExec_t work) : work_(work) {}

  cudaGraphExec_t work_ = nullptr;
};

/// A capture that begins with its construction: what is enqueued on its streams does not run but
/// becomes a graph.
///
/// The other streams are forked from `origin` and joined with it at the end. Events recorded before
/// mean nothing inside, and those recorded inside mean nothing afterwards: CudaEvent::forget()
/// them. Destroyed before end(), as by an exception, it drops what was captured. One thread
/// constructs, enqueues and ends it.
class CudaCapture {
 public:
  /// Begins: what `origin`, and `others` after it, get is kept and not run.
  CudaCapture(CudaStream& origin, List<CudaStream*> others)
      : origin_(origin), others_(std::move(others)), ends_(others_.size()) {
    // Other threads, such as other ranks, may allocate meanwhile.
    detail::check_cuda(cudaStreamBeginCapture(origin_.native(), cudaStreamCaptureModeThreadLocal),
                       "cudaStreamBeginCapture");
    open_ = true;
    try {
      origin_.record(begin_);
      for (CudaStream* other : others_) other->wait(begin_);
    } catch (...) {
      drop();
      throw;
    }
  }
  CudaCapture(const CudaCapture&) = delete;
  CudaCapture& operator=(const CudaCapture&) = delete;
  ~CudaCapture() { drop(); }

  /// Joins the streams, which then run what they are given again, and returns the graph.
  ///
  /// Errors:  CudaError if something was called that cannot be captured. Nothing was run then.
  CudaGraph end() {
    if (!open_) throw ContractError("CudaCapture::end: it was called before. Call it once.");
    for (std::size_t i = 0; i < others_.size(); ++i) {
      others_[i]->record(ends_[i]);
      origin_.wait(ends_[i]);
    }
    Captured graph;
    open_ = false;
    detail::check_cuda(cudaStreamEndCapture(origin_.native(), &graph.work), "cudaStreamEndCapture");
    cudaGraphExec_t work = nullptr;
    detail::check_cuda(cudaGraphInstantiate(&work, graph.work, 0), "cudaGraphInstantiate");
    return CudaGraph(work);
  }

 private:
  struct Captured {
    cudaGraph_t work = nullptr;
    ~Captured() {
      if (work != nullptr) cudaGraphDestroy(work);
    }
  };

  void drop() noexcept {
    if (!std::exchange(open_, false)) return;
    Captured graph;
    cudaStreamEndCapture(origin_.native(), &graph.work);
    cudaGetLastError();
  }

  CudaStream& origin_;
  List<CudaStream*> others_;
  CudaEvent begin_;
  List<CudaEvent> ends_;
  bool open_ = false;
};

}  // namespace zero
