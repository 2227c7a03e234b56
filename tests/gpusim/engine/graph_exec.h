// Executable graphs: what cudaGraphInstantiate makes of a graph and cudaGraphLaunch runs. Launches of one executable
// graph never overlap; each uses the values captured, or those of the last update.
#pragma once

#include <string>
#include <vector>

#include "engine/graph_capture.h"

struct CUgraphExec_st {
  struct Node {
    gpusim::Work work;
    int device = 0;
    int branch = 0;
    std::vector<std::size_t> dependencies;  // by place in `nodes`
  };
  std::vector<Node> nodes;
  std::vector<gpusim::Queue*> queues;  // by branch; a branch stays on one device
  gpusim::Clock last_launch;
  bool alive = true;
};

namespace gpusim {

CUgraphExec_st* instantiate(const CUgraph_st& graph);
CUgraphExec_st* find_exec(CUgraphExec_st* handle);  // null: destroyed or never made
void destroy_exec(CUgraphExec_st& exec);
void launch_graph(CUgraphExec_st& exec, CUstream_st& stream);

// Takes over the parameters of a graph of the same shape. Otherwise changes nothing and says what differs.
std::string update_exec(CUgraphExec_st& exec, const CUgraph_st& graph);

}  // namespace gpusim
