// Devices: those that FIDELITY_STANDIN_DEVICES (IPv4 addresses, separated by commas) says are installed, and any IPv4 address.
#include "client.hpp"
#include "infer_model_client.hpp"
#include "message.hpp"

#include "hailo/hailort_defaults.hpp"
#include "hailo/vdevice.hpp"

#include <algorithm>
#include <arpa/inet.h>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace hailort {

using standin::Action;
using standin::Client;
using standin::Fields;
using standin::Field;
using standin::Message;

namespace {

// HAILO_NOTIFICATION_ID_NN_CORE_CRC_ERROR_EVENT, HAILO_NOTIFICATION_ID_THROTTLING_STATE_CHANGE_EVENT.
constexpr uint32_t NOTIFICATIONS[] = {13, 14};

bool is_ipv4(const char *id)
{
    in_addr address = {};
    return inet_pton(AF_INET, id, &address) == 1;
}

template <size_t Size>
uint8_t fill(char (&field)[Size], std::string_view text)
{
    const auto length = std::min(Size, text.size());
    std::copy_n(text.begin(), length, field);
    return static_cast<uint8_t>(length);
}

// Repeated numbers, packed or one by one.
void append(std::string &bytes, const Field &field)
{
    if (field.bytes.empty()) {
        bytes.push_back(static_cast<char>(field.value));
        return;
    }
    // Serial and part numbers are bytes: each takes one or two bytes as a varint.
    for (size_t i = 0; i < field.bytes.size(); i++) {
        auto value = static_cast<uint8_t>(field.bytes[i]);
        if ((value & 0x80) != 0 && i + 1 < field.bytes.size()) {
            value = static_cast<uint8_t>((value & 0x7f) | (static_cast<uint8_t>(field.bytes[++i]) << 7));
        }
        bytes.push_back(static_cast<char>(value));
    }
}

hailo_device_identity_t read_identity(std::string_view message)
{
    hailo_device_identity_t identity = {};
    std::string serial;
    std::string part;
    Fields fields(message);
    for (Field field; fields.next(field);) {
        const auto value = static_cast<uint32_t>(field.value);
        switch (field.number) {
        case 1: identity.protocol_version = value; break;
        case 2:
            identity.fw_version.major = static_cast<uint32_t>(standin::find(field.bytes, 1).value);
            identity.fw_version.minor = static_cast<uint32_t>(standin::find(field.bytes, 2).value);
            identity.fw_version.revision = static_cast<uint32_t>(standin::find(field.bytes, 3).value);
            break;
        case 3: identity.logger_version = value; break;
        case 4: identity.board_name_length = fill(identity.board_name, field.bytes); break;
        case 5: identity.is_release = (value != 0); break;
        case 6: identity.extended_context_switch_buffer = (value != 0); break;
        case 7: identity.device_architecture = static_cast<hailo_device_architecture_t>(value); break;
        case 8: append(serial, field); break;
        case 9: append(part, field); break;
        case 10: identity.product_name_length = fill(identity.product_name, field.bytes); break;
        case 11: identity.extended_fw_check = (value != 0); break;
        default: break;
        }
    }
    // As HailoRT 5.2.0 does: it sets the part number's length twice, the second time to the serial number's, whose own stays 0.
    (void)fill(identity.serial_number, serial);
    (void)fill(identity.part_number, part);
    identity.part_number_length = static_cast<uint8_t>(serial.size());
    return identity;
}

class RemoteDevice final : public Device {
public:
    RemoteDevice(std::string id, std::shared_ptr<Client> client, uint32_t handle)
        : m_id(std::move(id)), m_client(std::move(client)), m_handle(handle)
    {
    }

    ~RemoteDevice() override { (void)m_client->execute(Action::DEVICE_DESTROY, Message().handle(1, m_handle).str()); }

    Expected<hailo_device_identity_t> identify() override
    {
        auto reply = m_client->execute(Action::DEVICE_IDENTIFY, Message().handle(1, m_handle).str());
        if (!reply) {
            return make_unexpected(reply.status());
        }
        return read_identity(standin::find(reply.value(), 1).bytes);
    }

    const char *get_dev_id() const override { return m_id.c_str(); }

private:
    std::string m_id;
    std::shared_ptr<Client> m_client;
    uint32_t m_handle;
};

std::vector<std::string> installed()
{
    std::vector<std::string> ids;
    const char *list = std::getenv("FIDELITY_STANDIN_DEVICES");
    for (const char *at = (list != nullptr) ? list : ""; *at != '\0';) {
        const size_t length = std::strcspn(at, ",");
        if (length > 0) {
            ids.emplace_back(at, length);
        }
        at += length + ((at[length] == ',') ? 1 : 0);
    }
    return ids;
}

// The order in which HailoRT refuses parameters.
Expected<std::vector<std::string>> candidates(const hailo_vdevice_params_t &params)
{
    if (params.device_count == 0) {
        return make_unexpected(HAILO_INVALID_ARGUMENT);
    }
    if (params.device_ids == nullptr) {
        if (params.multi_process_service) {
            return make_unexpected(HAILO_INVALID_OPERATION);
        }
        if (params.device_count != 1) {
            return make_unexpected(HAILO_OUT_OF_PHYSICAL_DEVICES);
        }
        return installed();
    }
    if ((params.device_count != 1) || params.multi_process_service || !is_ipv4(params.device_ids[0].id)) {
        // A PCIe id that no scan finds, and what is no id at all.
        return make_unexpected(HAILO_INVALID_ARGUMENT);
    }
    return std::vector<std::string>{params.device_ids[0].id};
}

} // namespace

Expected<std::vector<std::string>> Device::scan()
{
    return installed();
}

struct VDevice::Impl {
    std::shared_ptr<Client> client;
    std::unique_ptr<RemoteDevice> device;
    uint32_t handle = 0;
};

VDevice::VDevice(std::unique_ptr<Impl> impl) : m_impl(std::move(impl)) {}

VDevice::~VDevice()
{
    (void)m_impl->client->execute(Action::VDEVICE_DESTROY, Message().handle(1, m_impl->handle).str());
}

Expected<std::shared_ptr<VDevice>> VDevice::create_shared(const hailo_vdevice_params_t &params)
{
    const auto ids = candidates(params);
    if (!ids) {
        return make_unexpected(ids.status());
    }
    Message inner;
    inner.number(1, static_cast<uint32_t>(params.scheduling_algorithm));
    inner.text(2, (params.group_id == nullptr) ? "" : params.group_id);
    for (const auto &id : ids.value()) {
        auto client = Client::connect(id);
        if (!client) {
            return make_unexpected(client.status());
        }
        const auto created = client.value()->execute(Action::VDEVICE_CREATE, Message().message(1, inner).str());
        if ((params.device_ids == nullptr) && (HAILO_DEVICE_IN_USE == created.status())) {
            continue;
        }
        if (!created) {
            return make_unexpected(created.status());
        }
        const auto device = client.value()->execute(Action::DEVICE_CREATE, "");
        if (!device) {
            return make_unexpected(device.status());
        }
        const auto device_handle = standin::handle_of(device.value(), 1);
        auto remote = std::make_unique<RemoteDevice>(id, client.value(), device_handle);
        for (const auto notification : NOTIFICATIONS) {
            auto request = Message().handle(1, device_handle).number(2, notification).message(3, Message().number(1, notification));
            const auto set = client.value()->execute(Action::DEVICE_SET_NOTIFICATION_CALLBACK, request.str());
            if (!set) {
                return make_unexpected(set.status());
            }
        }
        auto impl = std::make_unique<Impl>();
        impl->handle = standin::handle_of(created.value(), 1);
        impl->device = std::move(remote);
        impl->client = client.release();
        return std::shared_ptr<VDevice>(new VDevice(std::move(impl)));
    }
    return make_unexpected(HAILO_OUT_OF_PHYSICAL_DEVICES);
}

Expected<std::vector<std::reference_wrapper<Device>>> VDevice::get_physical_devices() const
{
    return std::vector<std::reference_wrapper<Device>>{*m_impl->device};
}

Expected<std::shared_ptr<InferModel>> VDevice::create_infer_model(const std::string &hef_path, const std::string &name)
{
    std::ifstream file(hef_path, std::ios::binary | std::ios::ate);
    if (!file) {
        return make_unexpected(HAILO_OPEN_FILE_FAILURE);
    }
    const auto size = file.tellg();
    if (size < 0) {
        return make_unexpected(HAILO_FILE_OPERATION_FAILURE);
    }
    std::vector<uint8_t> bytes(static_cast<size_t>(size));
    file.seekg(0);
    file.read(reinterpret_cast<char *>(bytes.data()), size);
    if (!file) {
        return make_unexpected(HAILO_FILE_OPERATION_FAILURE);
    }
    return create_infer_model(MemoryView(bytes.data(), bytes.size()), name);
}

// The whole HEF is sent first and read on this side afterwards: a group that is not in it is found out last.
Expected<std::shared_ptr<InferModel>> VDevice::create_infer_model(const MemoryView hef_buffer, const std::string &name)
{
    auto request = Message().handle(1, m_impl->handle).number(2, hef_buffer.size()).text(3, name);
    auto bytes = std::make_shared<const std::vector<uint8_t>>(hef_buffer.data(), hef_buffer.data() + hef_buffer.size());
    const auto reply = m_impl->client->execute(Action::VDEVICE_CREATE_INFER_MODEL, request.str(), standin::LONG_REQUEST_TIMEOUT,
        standin::REQUEST_MAX, std::move(bytes));
    if (!reply) {
        return make_unexpected(reply.status());
    }
    return InferModelClient::create(hef_buffer, name, m_impl->client, standin::handle_of(reply.value(), 1), m_impl->handle);
}

} // namespace hailort
