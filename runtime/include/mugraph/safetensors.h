// Reads files of weights in the format safetensors. Host only; needs no CUDA.
//
// A file is the length of its header (8 bytes), the header in JSON, and the elements of all tensors, row-major, one
// after the other. The header has an entry a tensor: "name": {"dtype": "F16", "shape": [2, 3], "data_offsets": [0, 12]}.
// Format: https://github.com/huggingface/safetensors, README. What is wrong with a file is an Error with a sentence.
#pragma once

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace mugraph {
namespace safetensors {

struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Tensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin;  // in bytes from the start of the file
  std::uint64_t bytes;
  std::size_t file;
};

inline std::string extents(std::vector<std::int64_t> const& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + "]";
}

// The JSON of a header, read from left to right.
class Json {
 public:
  Json(std::string const& text, std::string const& path) : text_(text), path_(path) {}

  // Goes on behind a character that must be next.
  void expect(char wanted) {
    if (!next_is(wanted)) fail(std::string("'") + wanted + "' is missing");
  }

  // Goes on behind a character, if it is next.
  bool next_is(char wanted) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) {
      ++at_;
    }
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }

  std::string string() {
    expect('"');
    std::string result;
    while (at_ < text_.size() && text_[at_] != '"') {
      if (text_[at_] == '\\') {
        escape(result);
      } else {
        result += text_[at_++];
      }
    }
    if (at_ >= text_.size()) fail("a string has no end");
    ++at_;
    return result;
  }

  std::uint64_t number() {
    next_is('\0');  // skips spaces
    std::uint64_t result = 0;
    std::size_t const start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      std::uint64_t const digit = text_[at_] - '0';
      if (result > (INT64_MAX - digit) / 10) fail("a number is too large");
      result = result * 10 + digit;
    }
    if (at_ == start) fail("a number is missing");
    return result;
  }

  std::vector<std::int64_t> numbers() {
    std::vector<std::int64_t> result;
    expect('[');
    if (next_is(']')) return result;
    do {
      result.push_back(static_cast<std::int64_t>(number()));
    } while (next_is(','));
    expect(']');
    return result;
  }

  // Calls `entry` with each key of an object, at its value.
  template <class Entry>
  void object(Entry const& entry) {
    expect('{');
    if (next_is('}')) return;
    do {
      std::string const key = string();
      expect(':');
      entry(key);
    } while (next_is(','));
    expect('}');
  }

  [[noreturn]] void fail(std::string const& what) const {
    throw Error("the header of " + path_ + " is not that of a safetensors file: " + what + " at its byte " +
                std::to_string(at_) + ".");
  }

 private:
  void escape(std::string& result) {
    static char const kEscapes[] = "\"\"\\\\//b\bf\fn\nr\rt\t";
    char const kind = ++at_ < text_.size() ? text_[at_++] : '\0';
    if (kind == 'u') return unicode(result);
    for (char const* pair = kEscapes; *pair != '\0'; pair += 2) {
      if (*pair == kind) {
        result += pair[1];
        return;
      }
    }
    fail("a string has an unknown escape");
  }

  // Four hexadecimal digits as UTF-8.
  void unicode(std::string& result) {
    unsigned code = 0;
    int digits = 0;
    if (at_ + 4 > text_.size() || std::sscanf(text_.substr(at_, 4).c_str(), "%4x%n", &code, &digits) != 1 || digits != 4) {
      fail("a string has an unknown escape");
    }
    at_ += 4;
    if (code < 0x80) {
      result += static_cast<char>(code);
    } else if (code < 0x800) {
      result += static_cast<char>(0xc0 | code >> 6);
      result += static_cast<char>(0x80 | (code & 0x3f));
    } else {
      result += static_cast<char>(0xe0 | code >> 12);
      result += static_cast<char>(0x80 | (code >> 6 & 0x3f));
      result += static_cast<char>(0x80 | (code & 0x3f));
    }
  }

  std::string const& text_;
  std::string const& path_;
  std::size_t at_ = 0;
};

// The tensors of several files, by name; of two that have one name, that of the later file counts.
class Files {
 public:
  explicit Files(std::vector<std::string> paths) : paths_(std::move(paths)) {
    for (std::size_t file = 0; file < paths_.size(); ++file) read_header(file);
  }

  // The tensor of a name, or null.
  Tensor const* find(std::string const& name) const {
    auto const found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }

  std::map<std::string, Tensor> const& tensors() const { return tensors_; }
  std::vector<std::string> const& paths() const { return paths_; }
  std::string const& path(Tensor const& tensor) const { return paths_[tensor.file]; }

  // Calls `take` with the bytes of a tensor, and their offset in it, at most `part` of them at a time.
  template <class Take>
  void read(Tensor const& tensor, std::size_t part, Take const& take) const {
    std::ifstream stream(path(tensor), std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(tensor.begin));
    std::vector<char> buffer;
    for (std::uint64_t offset = 0; offset < tensor.bytes; offset += buffer.size()) {
      buffer.resize(static_cast<std::size_t>(tensor.bytes - offset < part ? tensor.bytes - offset : part));
      if (!stream.read(buffer.data(), static_cast<std::streamsize>(buffer.size()))) {
        throw Error(path(tensor) + " cannot be read to its end.");
      }
      take(buffer.data(), static_cast<std::size_t>(offset), buffer.size());
    }
  }

 private:
  void read_header(std::size_t file) {
    std::string const& path = paths_[file];
    std::ifstream stream(path, std::ios::binary | std::ios::ate);
    if (!stream) throw Error(path + " cannot be opened; expected a file of weights in the format safetensors.");
    auto const size = static_cast<std::uint64_t>(stream.tellg());
    stream.seekg(0);
    unsigned char prefix[8] = {};
    std::uint64_t length = 0;
    stream.read(reinterpret_cast<char*>(prefix), 8);
    for (int i = 7; i >= 0; --i) length = length << 8 | prefix[i];
    if (!stream || length > size - 8) {
      throw Error(path + " is no safetensors file, or a part of one: its header does not end in it.");
    }
    std::string header(static_cast<std::size_t>(length), '\0');
    stream.read(&header[0], static_cast<std::streamsize>(length));
    Json json(header, path);
    json.object([&](std::string const& name) {
      if (name == "__metadata__") {
        json.object([&](std::string const&) { json.string(); });
      } else {
        tensors_[name] = read_entry(json, name, file, 8 + length, size);
      }
    });
  }

  Tensor read_entry(Json& json, std::string const& name, std::size_t file, std::uint64_t start, std::uint64_t size) {
    Tensor tensor{"", {}, 0, 0, file};
    std::vector<std::int64_t> offsets;
    json.object([&](std::string const& key) {
      if (key == "dtype") {
        tensor.dtype = json.string();
      } else if (key == "shape") {
        tensor.shape = json.numbers();
      } else if (key == "data_offsets") {
        offsets = json.numbers();
      } else {
        json.fail("'" + name + "' has an unknown field '" + key + "'");
      }
    });
    if (offsets.size() != 2 || offsets[0] > offsets[1]) json.fail("'" + name + "' has no two offsets in order");
    if (static_cast<std::uint64_t>(offsets[1]) > size - start) {
      throw Error(paths_[file] + " ends before '" + name + "' does; it is a part of a file.");
    }
    tensor.begin = start + static_cast<std::uint64_t>(offsets[0]);
    tensor.bytes = static_cast<std::uint64_t>(offsets[1] - offsets[0]);
    return tensor;
  }

  std::vector<std::string> paths_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace safetensors
}  // namespace mugraph
