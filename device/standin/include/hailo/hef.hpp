// A compiled model.
#ifndef FIDELITY_STANDIN_HEF_HPP
#define FIDELITY_STANDIN_HEF_HPP

#include "hailo/buffer.hpp"
#include "hailo/expected.hpp"

#include <memory>
#include <string>
#include <vector>

namespace hailort {

class HAILORTAPI Hef final {
public:
    static Expected<Hef> create(const std::string &hef_path);
    static Expected<Hef> create(const MemoryView &hef_buffer);

    std::vector<std::string> get_network_groups_names() const;
    Expected<std::string> get_description(bool stream_infos, bool vstream_infos) const;
    // As in HailoRT: of a HEF in memory alone.
    Expected<MemoryView> get_external_resources(const std::string &resource_name) const;
    std::vector<std::string> get_external_resource_names() const;

private:
    friend class VDevice;

    class Impl;
    explicit Hef(std::shared_ptr<Impl> pimpl);
    std::shared_ptr<Impl> pimpl;
};

} // namespace hailort

#endif
