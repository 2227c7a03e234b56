#include "parallel/servers/wire/tcp_address.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace trifold {
namespace {

TEST(TcpAddressTest, WhatCanOnlyBeThisMachineIsLoopback) {
  for (const char* text : {"tcp://127.0.0.1:5", "tcp://127.9.8.7:*", "tcp://[::1]:80", "tcp://localhost:80"})
    EXPECT_TRUE(tcp_address_from(text).loopback()) << text;
  // Also names: a name may be resolved to anything.
  for (const char* text : {"tcp://*:5", "tcp://0.0.0.0:5", "tcp://10.0.0.1:5", "tcp://[::]:5", "tcp://[fe80::1]:5",
                           "tcp://lo:5", "tcp://127.0.0.1.example.com:5", "tcp://127.1:5", "tcp://[::ffff:1.2.3.4]:5"})
    EXPECT_FALSE(tcp_address_from(text).loopback()) << text;
}

TEST(TcpAddressTest, TextsThatAreNoAddressAreRefused) {
  for (const char* text : {"", "tcp://", "tcp://:5", "tcp://a", "tcp://a:", "tcp://a:99999", "tcp://a:-1", "tcp://a:5x",
                           "10.0.0.1:5", "ipc:///tmp/x:1", "inproc://a:5", "tcp://127.0.0.1;10.0.0.1:5", "tcp://a b:5",
                           "tcp://[]:5", "tcp://::1:5", "tcp://a/b:5"})
    EXPECT_THROW(tcp_address_from(text), Error) << text;
  EXPECT_EQ(tcp_address_from("tcp://[::1]:5555").text(), "tcp://[::1]:5555");
  EXPECT_EQ(tcp_address_from("tcp://node-1.cluster:*").text(), "tcp://node-1.cluster:*");
}

}  // namespace
}  // namespace trifold
