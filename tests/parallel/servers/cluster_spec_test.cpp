#include "parallel/servers/cluster_spec.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

std::string spec_error(const std::string& text) {
  try {
    parse_cluster_spec(text, "cluster.json");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string tf_config_error(const std::string& text) {
  try {
    parse_tf_config(text.c_str());
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(ClusterSpec, ReadsTheTutorialsCluster) {
  const ClusterSpec spec =
      parse_cluster_spec(R"({"ps": ["10.0.0.1:2222"], "worker": ["node-a:2223", "[::1]:2224"]})", "cluster.json");
  EXPECT_EQ(spec.servers, std::vector<std::string>{"tcp://10.0.0.1:2222"});
  EXPECT_EQ(spec.workers, (std::vector<std::string>{"tcp://node-a:2223", "tcp://[::1]:2224"}));
  EXPECT_EQ(spec.manager, "");
}

TEST(ClusterSpec, TfConfigSaysWhoThisProcessIs) {
  const std::string cluster = R"({"cluster": {"ps": ["a:1", "b:1"], "worker": ["grpc://c:1"], "chief": ["d:1"]}, )";
  const auto place_of = [&](const std::string& task) {
    return parse_tf_config((cluster + R"("task": )" + task + "}").c_str()).value();
  };
  EXPECT_EQ(place_of(R"({"type": "ps", "index": 1})").task, (ClusterTask{"server", 1}));
  EXPECT_EQ(place_of(R"({"type": "ps", "index": 1})").address(), "tcp://b:1");
  EXPECT_EQ(place_of(R"({"type": "worker", "index": "0"})").address(), "tcp://c:1");
  EXPECT_EQ(place_of(R"({"type": "chief"})").task, (ClusterTask{"manager", 0}));
  EXPECT_EQ(place_of(R"({"type": "chief"})").address(), "tcp://d:1");
  EXPECT_EQ(parse_tf_config(nullptr), std::nullopt);
  EXPECT_EQ(parse_tf_config(""), std::nullopt);
}

TEST(ClusterSpec, MistakesAreNamed) {
  EXPECT_EQ(spec_error("{"), "cluster.json: expected a JSON object such as {\"ps\": [\"host:2222\"]}");
  EXPECT_EQ(spec_error("[]"), "cluster.json: expected a JSON object, found []");
  EXPECT_EQ(spec_error(R"({"ps": "a:1"})"), "cluster.json: /ps: expected a list of addresses, found \"a:1\"");
  for (const char* wrong : {"a", ":1", "a:", "a:0", "a:65536", "a:1x", "a b:1", "a/b:1", "::1:5"})
    EXPECT_EQ(
        spec_error(R"({"ps": [")" + std::string(wrong) + R"("], "worker": ["b:1"]})"),
        "cluster.json: /ps/0: expected an address such as \"10.0.0.1:2222\", found \"" + std::string(wrong) + "\"");
  EXPECT_EQ(spec_error(R"({"ps": [1]})"),
            "cluster.json: /ps/0: expected an address such as \"10.0.0.1:2222\", found 1");
  EXPECT_EQ(spec_error(R"({"servers": []})"),
            "cluster.json: /servers: unknown role 'servers' (known: ps, worker, chief)");
  EXPECT_EQ(spec_error(R"({"worker": ["a:1"]})"),
            "cluster.json: no \"ps\": a cluster needs at least one parameter server");
  EXPECT_EQ(spec_error(R"({"ps": ["a:1"]})"), "cluster.json: no \"worker\": a cluster needs at least one");
  EXPECT_EQ(spec_error(R"({"ps": ["a:1"], "worker": ["a:1"]})"),
            "cluster.json: tcp://a:1 is there twice, and one process listens at an address");
  EXPECT_EQ(spec_error(R"({"ps": ["a:1"], "worker": ["b:1"], "chief": ["c:1", "d:1"]})"),
            "cluster.json: /chief: a cluster has one who coordinates, found [\"c:1\",\"d:1\"]");
}

TEST(ClusterSpec, MistakesOfTfConfigAreNamed) {
  const std::string cluster = R"({"cluster": {"ps": ["a:1"], "worker": ["c:1"]})";
  EXPECT_EQ(tf_config_error("{}"), "TF_CONFIG: no \"cluster\"; it has a \"cluster\" and a \"task\"");
  EXPECT_EQ(tf_config_error(cluster + "}"), "TF_CONFIG: no \"task\"; it has a \"cluster\" and a \"task\"");
  EXPECT_EQ(tf_config_error(cluster + R"(, "task": "worker"})"),
            "TF_CONFIG: /task: expected {\"type\": \"worker\", \"index\": 0}, found \"worker\"");
  EXPECT_EQ(tf_config_error(cluster + R"(, "task": {"type": "evaluator", "index": 0}})"),
            "TF_CONFIG: /task/type: unknown role 'evaluator' (known: ps, worker, chief)");
  EXPECT_EQ(tf_config_error(cluster + R"(, "task": {"type": "worker", "index": 1}})"),
            "TF_CONFIG: /task/index: the cluster has 1 of type worker, and there is no 1 (the first is 0)");
  EXPECT_EQ(tf_config_error(cluster + R"(, "task": {"type": "chief"}})"),
            "TF_CONFIG: /task/index: the cluster has 0 of type chief, and there is no 0 (the first is 0)");
  EXPECT_EQ(tf_config_error(R"({"cluster": {"ps": []}, "task": {}})"),
            "TF_CONFIG: /cluster: no \"ps\": a cluster needs at least one parameter server");
}

}  // namespace
}  // namespace trifold
