#include "hef_impl.hpp"

#include <fstream>

namespace hailort {

Hef::Hef(std::shared_ptr<Impl> impl) : pimpl(std::move(impl)) {}

Expected<Hef> Hef::create(const std::string &hef_path)
{
    std::ifstream file(hef_path, std::ios::binary);
    if (!file) {
        return make_unexpected(HAILO_OPEN_FILE_FAILURE);
    }
    // No more than header and protobuf: what follows may be gigabytes.
    std::string bytes(12, '\0');
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    bytes.resize(static_cast<size_t>(file.gcount()));
    const auto sizes = standin::sizes(bytes);
    if (!sizes) {
        return make_unexpected(sizes.status());
    }
    file.clear();
    file.seekg(0, std::ios::end);
    const auto length = static_cast<size_t>(file.tellg());
    bytes.resize(std::min(length, sizes.value().first + sizes.value().second));
    file.seekg(0);
    file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file) {
        return make_unexpected(HAILO_FILE_OPERATION_FAILURE);
    }
    auto parsed = standin::parse(bytes);
    if (!parsed) {
        return make_unexpected(parsed.status());
    }
    return Hef(std::make_shared<Impl>(Impl{parsed.release(), {}}));
}

Expected<Hef> Hef::create(const MemoryView &hef_buffer)
{
    const std::string_view bytes(reinterpret_cast<const char *>(hef_buffer.data()), hef_buffer.size());
    auto parsed = standin::parse(bytes);
    if (!parsed) {
        return make_unexpected(parsed.status());
    }
    return Hef(std::make_shared<Impl>(Impl{parsed.release(), hef_buffer}));
}

std::vector<std::string> Hef::get_network_groups_names() const
{
    std::vector<std::string> names;
    for (const auto &group : pimpl->file.groups) {
        names.push_back(group.name);
    }
    return names;
}

std::vector<std::string> Hef::get_external_resource_names() const
{
    std::vector<std::string> names;
    for (const auto &resource : pimpl->file.resources) {
        names.push_back(resource.name);
    }
    return names;
}

Expected<MemoryView> Hef::get_external_resources(const std::string &resource_name) const
{
    if (pimpl->memory.data() == nullptr) {
        return make_unexpected(HAILO_NOT_SUPPORTED);
    }
    for (const auto &resource : pimpl->file.resources) {
        if (resource.name != resource_name) {
            continue;
        }
        const uint64_t size = pimpl->memory.size();
        if ((pimpl->file.zero_point > size) || (resource.offset > size - pimpl->file.zero_point) ||
            (resource.size > size - pimpl->file.zero_point - resource.offset)) {
            return make_unexpected(HAILO_INVALID_HEF);
        }
        return MemoryView(pimpl->memory.data() + pimpl->file.zero_point + resource.offset, resource.size);
    }
    return make_unexpected(HAILO_NOT_FOUND);
}

Expected<std::string> Hef::get_description(bool, bool) const
{
    std::string text;
    const auto list = [&](const char *direction, const std::vector<standin::Stream> &streams) {
        for (const auto &stream : streams) {
            text += std::string("  ") + direction + " " + stream.name + " " + std::to_string(stream.shape.height) + "x" +
                std::to_string(stream.shape.width) + "x" + std::to_string(stream.shape.features) + "\n";
        }
    };
    for (const auto &group : pimpl->file.groups) {
        text += "Network group " + group.name + "\n";
        list("Input ", group.inputs);
        list("Output", group.outputs);
    }
    return text;
}

} // namespace hailort
