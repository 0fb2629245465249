// Devices of one host, each a process of its own, that call a library whose kernels the emulator runs.
//
// NAME_ is the library's, DEVICES their number, TENSORS its calls' arguments; the argument is a folder with what each
// device takes in each call.  Memory that devices share is that of all processes.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "library.h"

namespace {

// Memory at the start of a page, which is not a number before it is written.
void* poisoned(std::size_t bytes) {
  void* const memory = mmap(nullptr, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  std::memset(memory, 0xff, bytes);
  return memory;
}

int device(int place, void* const* peers, std::string const& folder) {
  for (int call = 0; call < CALLS; ++call) {
    std::string const own = folder + "/" + std::to_string(place) + "_" + std::to_string(call) + "_";
    std::vector<void*> tensors;
    for (std::size_t i = 0; i < kInputs; ++i) {
      tensors.push_back(poisoned(kBytes[i]));
      std::ifstream file(own + std::to_string(i), std::ios::binary);
      file.read(static_cast<char*>(tensors[i]), static_cast<std::streamsize>(kBytes[i]));
      if (!file) return 2;
    }
    for (std::size_t i = kInputs; i < std::size(kBytes); ++i) tensors.push_back(poisoned(kBytes[i]));
    std::size_t const needed = workspace_bytes();
    // Devices are late by turns.
    usleep(20000 * ((place + call) % DEVICES));
    if (run(tensors.data(), peers, place, poisoned(needed), needed) != 0) {
      std::fprintf(stderr, "device %d: %s\n", place, error());
      return 3;
    }
    for (std::size_t i = kInputs; i < std::size(kBytes); ++i) {
      std::ofstream file(own + std::to_string(i), std::ios::binary);
      file.write(static_cast<char const*>(tensors[i]), static_cast<std::streamsize>(kBytes[i]));
    }
  }
  return 0;
}

}  // namespace

int main(int, char** arguments) {
  alarm(60);
  std::vector<void*> peers;
  for (int member = 0; member < DEVICES; ++member) {
    peers.push_back(mmap(nullptr, peers_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  }
  for (int place = 0; place < DEVICES; ++place) {
    if (fork() == 0) {
      alarm(60);
      _exit(device(place, peers.data(), arguments[1]));
    }
  }
  int failed = 0;
  for (int place = 0; place < DEVICES; ++place) {
    int status = 0;
    wait(&status);
    if (status != 0) failed = 1;
  }
  return failed;
}
