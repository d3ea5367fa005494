# SPDX-License-Identifier: Apache-2.0
# Conan 2: `conan create packaging/conan` packages this tree.
import os
import re

from conan import ConanFile
from conan.tools.build import check_min_cppstd
from conan.tools.files import copy, load


class ZeroConan(ConanFile):
    name = "zero"
    description = "Sharded training with a schedule that is proved before it runs"
    license = "Apache-2.0"
    topics = ("header-only", "training", "zero", "fsdp", "nccl")
    package_type = "header-library"
    settings = "os", "compiler", "build_type", "arch"
    no_copy_source = True

    def set_version(self):
        text = load(self, os.path.join(self.recipe_folder, "../../include/zero/base/version.hpp"))
        self.version = ".".join(re.findall(r"version_(?:major|minor|patch) = (\d+)", text))

    def export_sources(self):
        top = os.path.join(self.recipe_folder, "..", "..")
        for pattern in ("include/*", "cmake/*", "LICENSE"):
            copy(self, pattern, src=top, dst=self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)

    def package_id(self):
        self.info.clear()

    def package(self):
        copy(self, "LICENSE", src=self.source_folder, dst=os.path.join(self.package_folder, "licenses"))
        copy(self, "include/*", src=self.source_folder, dst=self.package_folder)
        # zero::checkpoint, zero::cuda and zero::mpi look for what they need on the user's machine.
        for component in ("checkpoint", "cuda", "mpi"):
            copy(self, f"cmake/{component}.cmake", src=self.source_folder, dst=self.package_folder)

    def package_info(self):
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
        self.cpp_info.system_libs = ["pthread"]
        self.cpp_info.set_property("cmake_file_name", "zero")
        self.cpp_info.set_property("cmake_target_name", "zero::zero")
        self.cpp_info.set_property("pkg_config_name", "zero")
        self.cpp_info.builddirs = ["cmake"]
        modules = [f"cmake/{component}.cmake" for component in ("checkpoint", "cuda", "mpi")]
        self.cpp_info.set_property("cmake_build_modules", modules)
