// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Instantiation and launch of captured graphs.
#include "graph.hpp"

#include <utility>

#include "call.hpp"
#include "stream.hpp"

namespace emulator {
namespace {

struct Graphs {
  Handles<cudaGraph_t, Graph> captured;
  Handles<cudaGraphExec_t, ExecutableGraph> executable;
};
Graphs& graphs() {
  static Graphs* const only = new Graphs;
  return *only;
}

/// A node goes on in the lane of one that it comes after, if that is the lane's last; else it opens
/// a new one.
std::shared_ptr<ExecutableGraph> instantiate(Lock& held, std::shared_ptr<Graph> graph) {
  auto executable = std::make_shared<ExecutableGraph>();
  std::vector<const Node*> ends;
  for (const auto& node : graph->nodes) {
    std::size_t lane = ends.size();
    for (const Node* before : node->after) {
      const std::size_t candidate = executable->lane_of[before->index];
      if (ends[candidate] == before && before->device == node->device) lane = candidate;
    }
    if (lane == ends.size()) {
      ends.push_back(nullptr);
      executable->lanes.push_back(make_stream(held, node->device, cudaStreamNonBlocking));
    }
    ends[lane] = node.get();
    executable->lane_of.push_back(lane);
  }
  executable->graph = std::move(graph);
  return executable;
}

void launch(Lock& held, ExecutableGraph& executable, Stream& stream) {
  std::vector<OperationPointer> before;
  if (executable.latest) before.push_back(executable.latest);
  const OperationPointer begin = push(held, stream, {.name = "graph begin"}, std::move(before));
  std::vector<OperationPointer> operations;
  for (const auto& node : executable.graph->nodes) {
    std::vector<OperationPointer> after;
    for (const Node* earlier : node->after) after.push_back(operations[earlier->index]);
    if (after.empty()) after.push_back(begin);
    Stream& lane = *executable.lanes[executable.lane_of[node->index]];
    operations.push_back(push(held, lane, node->work, std::move(after)));
  }
  executable.latest = push(held, stream, {.name = "graph end"}, std::move(operations));
}

cudaError_t instantiate_handle(cudaGraphExec_t* executable, cudaGraph_t handle) {
  if (!executable) return cudaErrorInvalidValue;
  Lock held = lock();
  const auto graph = graphs().captured.find(handle);
  if (!graph) return cudaErrorInvalidValue;
  *executable = graphs().executable.add(instantiate(held, graph));
  return cudaSuccess;
}

}  // namespace

cudaGraph_t add_graph(Lock&, std::shared_ptr<Graph> graph) {
  return graphs().captured.add(std::move(graph));
}

GraphCounts count_graphs(Lock&) { return {graphs().captured.size(), graphs().executable.size()}; }

}  // namespace emulator

using namespace emulator;

extern "C" {
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long) {
  return call("cudaGraphInstantiate", Kind::uses,
              [&] { return instantiate_handle(executable, graph); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  return call("cudaGraphInstantiateWithFlags", Kind::uses,
              [&] { return instantiate_handle(executable, graph); });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return call("cudaGraphLaunch", Kind::uses, [&] {
    Lock held = lock();
    const auto executable = graphs().executable.find(handle);
    if (!executable) return cudaErrorInvalidValue;
    const StreamPointer stream = find_stream(held, stream_handle);
    if (stream->capture) return cudaErrorNotSupported;  // Graphs within graphs are not emulated.
    launch(held, *executable, *stream);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t stream) {
  return call("cudaGraphUpload", Kind::uses, [&] {
    Lock held = lock();
    find_stream(held, stream);
    return graphs().executable.find(handle) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetNodes", Kind::uses, [&] {
    const Lock held = lock();
    const auto graph = graphs().captured.find(handle);
    if (!graph || nodes || !count) return cudaErrorInvalidValue;  // Only the number is known here.
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return call("cudaGraphDestroy", Kind::destroys, [&] {
    const Lock held = lock();
    return graphs().captured.take(handle) ? cudaSuccess : cudaErrorInvalidValue;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return call("cudaGraphExecDestroy", Kind::destroys, [&] {
    Lock held = lock();
    const auto executable = graphs().executable.take(handle);
    if (!executable) return cudaErrorInvalidValue;
    for (const auto& lane : executable->lanes) close_stream(held, *lane);
    return cudaSuccess;
  });
}
}
