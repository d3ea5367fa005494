# SPDX-License-Identifier: Apache-2.0
# A Spack repository of one package, of the tree that holds it:
#   spack repo add packaging/spack && spack dev-build zero-sharding@0.1.0 +mpi
from spack_repo.builtin.build_systems.cmake import CMakePackage
from spack.package import *


class ZeroSharding(CMakePackage):
    """Sharded training with a schedule that is proved before it runs; header only."""

    license("Apache-2.0")
    version("0.1.0")

    variant("checkpoint", default=True, description="What zero::checkpoint needs")
    variant("cuda", default=False, description="What zero::cuda needs")
    variant("mpi", default=False, description="What zero::mpi needs")

    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    depends_on("xxhash", when="+checkpoint")
    depends_on("cuda@12:", when="+cuda")
    depends_on("nccl", when="+cuda")
    depends_on("mpi", when="+mpi")
    conflicts("%gcc@:11", msg="zero needs C++20: g++ 12 or later")
    conflicts("%clang@:13", msg="zero needs C++20: clang++ 14 or later")

    def cmake_args(self):
        off = ["TESTS", "EXAMPLES", "BENCHMARKS"]
        return [self.define("ZERO_INSTALL", True)] + [
            self.define("ZERO_BUILD_" + name, False) for name in off
        ]
