// What the host reads from a HEF: network groups, their streams, where resources are. Field numbers are those of hef.proto.
#ifndef FIDELITY_STANDIN_HEF_FILE_HPP
#define FIDELITY_STANDIN_HEF_FILE_HPP

#include "hailo/expected.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace standin {

struct Stream {
    std::string name;
    hailo_3d_image_shape_t shape = {};
    hailo_format_t format = {};
    hailo_quant_info_t quantisation = {};
};

struct Group {
    std::string name;
    // In the order of the file.
    std::vector<Stream> inputs;
    // In the sorted order that the group states.
    std::vector<Stream> outputs;
};

struct Resource {
    std::string name;
    uint64_t offset = 0;
    uint64_t size = 0;
};

struct HefFile {
    std::vector<Group> groups;
    std::vector<Resource> resources;
    // Where offsets count from.
    uint64_t zero_point = 0;
};

// Bytes of the header and of the protobuf after it; `prefix` is at least 12 bytes of the file.
hailort::Expected<std::pair<size_t, size_t>> sizes(std::string_view prefix);
// Reads header and protobuf. Checksums are not verified.
hailort::Expected<HefFile> parse(std::string_view file);

} // namespace standin

#endif
