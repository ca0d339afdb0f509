// What the library reads from a HEF, without a device.
#include "guard.hpp"

#include "hailo/hef.hpp"

#include <cstring>

using fidelity::guarded;
using fidelity::require;
using fidelity::take;

namespace {

hailort::Hef open(const char *path)
{
    require(path != nullptr, "path is null");
    return take(hailort::Hef::create(std::string(path)), FID_STEP_HEF, "cannot read " + std::string(path));
}

void give(const std::string &text, char *out, size_t capacity, size_t *needed)
{
    require((needed != nullptr) && ((out != nullptr) || (capacity == 0)), "text or needed is null");
    *needed = text.size() + 1;
    if (capacity > 0) {
        std::snprintf(out, capacity, "%s", text.c_str());
    }
}

} // namespace

int32_t fid_hef_description(const char *path, char *text, size_t capacity, size_t *needed, fid_error *error) noexcept
{
    return guarded(error, [&] {
        const auto hef = open(path);
        give(take(hef.get_description(true, true), FID_STEP_HEF, "cannot describe the HEF"), text, capacity, needed);
    });
}

int32_t fid_hef_group_names(const char *path, char *text, size_t capacity, size_t *needed, fid_error *error) noexcept
{
    return guarded(error, [&] {
        std::string names;
        for (const auto &name : open(path).get_network_groups_names()) {
            names += name + "\n";
        }
        give(names, text, capacity, needed);
    });
}

int32_t fid_hef_resource(const uint8_t *bytes, size_t length, const char *name, uint8_t *data, size_t capacity, size_t *needed,
    fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((bytes != nullptr) && (name != nullptr) && (needed != nullptr), "an argument is null");
        require((data != nullptr) || (capacity == 0), "data is null");
        const auto view = hailort::MemoryView::create_const(bytes, length);
        const auto hef = take(hailort::Hef::create(view), FID_STEP_HEF, "cannot read the HEF");
        const auto resource = take(hef.get_external_resources(std::string(name)), FID_STEP_HEF, "cannot get resource " + std::string(name));
        *needed = resource.size();
        if (resource.size() <= capacity) {
            std::memcpy(data, resource.data(), resource.size());
        }
    });
}
