// SPDX-License-Identifier: Apache-2.0
// Copyright The zero authors
// Graphs and their executable form. Private to the emulator; with the lock held.
#pragma once

#include "capture.hpp"

namespace emulator {

/// A graph with the streams of its own that it runs on, so that what no path of the graph orders
/// runs on different threads.
struct ExecutableGraph {
  std::shared_ptr<Graph> graph;
  std::vector<StreamPointer> lanes;
  std::vector<std::size_t> lane_of;   ///< By node.
  OperationPointer latest = nullptr;  ///< The end of the latest launch.
};

cudaGraph_t add_graph(Lock&, std::shared_ptr<Graph> graph);

struct GraphCounts {
  std::size_t graphs;
  std::size_t executable;
};
GraphCounts count_graphs(Lock&);

}  // namespace emulator
