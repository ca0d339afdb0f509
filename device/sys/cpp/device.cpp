// Versions, devices.
#include "guard.hpp"
#include "handles.hpp"

#include "hailo/device.hpp"
#include "hailo/hailort_defaults.hpp"

#include <cstring>
#include <unistd.h>

// The headers define no version: the build script reads it where HailoRT's installer wrote it.
#if !defined(FID_HEADER_MAJOR) || !defined(FID_HEADER_MINOR) || !defined(FID_HEADER_REVISION)
#error "the version of HailoRT's headers is not defined"
#endif

using fidelity::check;
using fidelity::copy_text;
using fidelity::guarded;
using fidelity::require;
using fidelity::take;

// The same numbers are in src/raw.rs.
static_assert(sizeof(fid_error) == 248, "fid_error");
static_assert(sizeof(fid_versions_info) == 24, "fid_versions_info");
static_assert(sizeof(fid_id) == 32, "fid_id");
static_assert(sizeof(fid_open_options) == 2 * sizeof(void *) + 8, "fid_open_options");
static_assert(sizeof(fid_device_info) == 200, "fid_device_info");
static_assert(sizeof(fid_stream_info) == 184, "fid_stream_info");

namespace {

// A field whose length the library does not always fill in (5.2.0 over RPC): up to its first NUL.
template <size_t Size>
std::string field_text(const char (&field)[Size])
{
    return std::string(field, strnlen(field, Size));
}

} // namespace

uint32_t fid_abi_version(void) noexcept
{
    return FID_ABI_VERSION;
}

int32_t fid_versions(fid_versions_info *out, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(out != nullptr, "out is null");
        hailo_version_t version = {};
        check(hailo_get_library_version(&version), FID_STEP_ARGS, "the library does not say its version");
        *out = {{version.major, version.minor, version.revision}, {FID_HEADER_MAJOR, FID_HEADER_MINOR, FID_HEADER_REVISION}};
    });
}

const char *fid_status_name(int32_t status) noexcept
{
    const char *name = hailo_get_status_message(static_cast<hailo_status>(status));
    return (name == nullptr) ? "unknown status" : name;
}

void fid_exit(int32_t code) noexcept
{
    _exit(code);
}

int32_t fid_scan(fid_id *ids, size_t capacity, size_t *count, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((count != nullptr) && ((ids != nullptr) || (capacity == 0)), "ids or count is null");
        const auto found = take(hailort::Device::scan(), FID_STEP_SCAN, "cannot look for devices");
        *count = found.size();
        for (size_t i = 0; (i < found.size()) && (i < capacity); i++) {
            copy_text(ids[i].text, found[i]);
        }
    });
}

int32_t fid_device_open(const fid_open_options *options, fid_device **out, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require(out != nullptr, "out is null");
        *out = nullptr;
        auto params = hailort::HailoRTDefaults::get_vdevice_params();
        hailo_device_id_t id = {};
        std::string group_id;
        std::string what = "cannot open any device";
        if (options != nullptr) {
            if (options->device_id != nullptr) {
                require(std::strlen(options->device_id) < sizeof(id.id), "the device id is too long");
                copy_text(id.id, options->device_id);
                params.device_ids = &id;
                params.device_count = 1;
                what = "cannot open device " + std::string(id.id);
            }
            if (options->group_id != nullptr) {
                group_id = options->group_id;
                params.group_id = group_id.c_str();
            }
            if (options->scheduler >= 0) {
                params.scheduling_algorithm = static_cast<hailo_scheduling_algorithm_t>(options->scheduler);
            }
            params.multi_process_service = (options->multi_process_service != 0);
        }
        auto vdevice = take(hailort::VDevice::create_shared(params), FID_STEP_VDEVICE, what);
        *out = new fid_device{std::move(vdevice)};
    });
}

int32_t fid_device_identify(fid_device *device, fid_device_info *out, fid_error *error) noexcept
{
    return guarded(error, [&] {
        require((device != nullptr) && (out != nullptr), "device or out is null");
        auto devices = take(device->vdevice->get_physical_devices(), FID_STEP_DEVICE_INFO, "cannot list physical devices");
        if (devices.empty()) {
            throw fidelity::Failure{HAILO_INTERNAL_FAILURE, FID_STEP_DEVICE_INFO, "the device consists of no physical device"};
        }
        auto &physical = devices.front().get();
        const auto identity = take(physical.identify(), FID_STEP_DEVICE_INFO, "the device does not identify itself");
        fid_device_info info = {};
        copy_text(info.id, physical.get_dev_id());
        copy_text(info.board_name, field_text(identity.board_name));
        copy_text(info.product_name, field_text(identity.product_name));
        copy_text(info.serial_number, field_text(identity.serial_number));
        copy_text(info.part_number, field_text(identity.part_number));
        info.firmware[0] = identity.fw_version.major;
        info.firmware[1] = identity.fw_version.minor;
        info.firmware[2] = identity.fw_version.revision;
        info.architecture = static_cast<int32_t>(identity.device_architecture);
        info.is_release = identity.is_release ? 1 : 0;
        *out = info;
    });
}

void fid_device_close(fid_device *device) noexcept
{
    (void)guarded(nullptr, [&] { delete device; });
}
