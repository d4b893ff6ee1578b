// A folder for the files of one test, gone when the test ends.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace glassbox::test_support {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string("glassbox_") + info->test_suite_name() + "_" + info->name();
    for (char& character : name) character = character == '/' ? '_' : character;
    // Several builds may run the same test at once.
    for (int attempt = 0; path_.empty(); ++attempt) {
      const std::filesystem::path candidate =
          std::filesystem::temp_directory_path() / (name + "_" + std::to_string(attempt));
      if (std::filesystem::create_directory(candidate)) path_ = candidate;
    }
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() {
    std::error_code no_throw;
    std::filesystem::remove_all(path_, no_throw);
  }

  const std::filesystem::path& path() const { return path_; }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  // Writes a file and returns its path.
  std::string write(const std::string& name, const std::string& bytes) const {
    std::ofstream stream(path_ / name, std::ios::binary);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file(name);
  }

 private:
  std::filesystem::path path_;
};

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << stream.rdbuf();
  return bytes.str();
}

// Data of this repository, and of third parties where the environment says where they are; else empty.
inline std::filesystem::path own_reference() {
  return std::filesystem::path(GLASSBOX_SOURCE_DIR) / "tests" / "reference";
}
inline std::filesystem::path outer_reference() {
  const char* folder = std::getenv("GLASSBOX_REFERENCE");
  return folder == nullptr ? std::filesystem::path() : std::filesystem::path(folder);
}

}  // namespace glassbox::test_support
