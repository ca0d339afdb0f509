#include "hef_file.hpp"

#include "message.hpp"

#include <algorithm>

namespace standin {

namespace {

using hailort::Expected;
using hailort::make_unexpected;

constexpr uint32_t DEVICE_TO_HOST = 1;
constexpr uint64_t EDGE_INFO = 0;
constexpr uint64_t BOUNDARY = 0;
constexpr uint64_t EXTENSION_OUTPUT_SCALE_PER_FEATURE = 25;

uint64_t big_endian(std::string_view bytes, size_t at, size_t size)
{
    uint64_t value = 0;
    for (size_t i = 0; i < size; i++) {
        value = (value << 8) | static_cast<uint8_t>(bytes[at + i]);
    }
    return value;
}

// Device order of the file -> order that the host uses (HailoRTDefaults); none for what a language model has no use for.
hailo_format_order_t host_order(uint64_t format)
{
    switch (format) {
    case 0:
    case 1:
    case 8:
    case 13:
        return HAILO_FORMAT_ORDER_NHWC;
    case 2:
        return HAILO_FORMAT_ORDER_NC;
    case 3:
        return HAILO_FORMAT_ORDER_FCR;
    case 5:
        return HAILO_FORMAT_ORDER_NHW;
    case 7:
        return HAILO_FORMAT_ORDER_F8CR;
    default:
        return HAILO_FORMAT_ORDER_MAX_ENUM;
    }
}

hailo_status read_base(std::string_view base, Stream &stream)
{
    uint64_t data_bytes = 0;
    uint64_t format = 0;
    Fields fields(base);
    for (Field field; fields.next(field);) {
        const auto value = static_cast<uint32_t>(field.value);
        switch (field.number) {
        case 1: stream.shape.height = value; break;
        case 3: stream.shape.width = value; break;
        case 5: stream.shape.features = value; break;
        case 7: format = field.value; break;
        case 12: data_bytes = field.value; break;
        default: break;
        }
    }
    stream.format.order = host_order(format);
    if (stream.format.order == HAILO_FORMAT_ORDER_MAX_ENUM) {
        return HAILO_NOT_IMPLEMENTED;
    }
    if ((data_bytes != 1) && (data_bytes != 2)) {
        return HAILO_INVALID_ARGUMENT;
    }
    stream.format.type = (data_bytes == 1) ? HAILO_FORMAT_TYPE_UINT8 : HAILO_FORMAT_TYPE_UINT16;
    return fields.malformed() ? HAILO_HEF_FILE_CORRUPTED : HAILO_SUCCESS;
}

void read_quantisation(std::string_view numeric, hailo_quant_info_t &quantisation)
{
    Fields fields(numeric);
    for (Field field; fields.next(field);) {
        switch (field.number) {
        case 1: quantisation.qp_zp = field.real(); break;
        case 2: quantisation.qp_scale = field.real(); break;
        case 3: quantisation.limvals_min = field.real(); break;
        case 4: quantisation.limvals_max = field.real(); break;
        default: break;
        }
    }
}

// Adds the stream of an edge, if it is a boundary of the network.
hailo_status read_edge(std::string_view edge, bool scale_per_feature, Group &group)
{
    if (find(find(edge, 5).bytes, 3).value != BOUNDARY) {
        return HAILO_SUCCESS;
    }
    if (find(edge, 2).value != EDGE_INFO) {
        return HAILO_NOT_IMPLEMENTED;
    }
    const auto info = find(edge, 3).bytes;
    Stream stream;
    stream.name = find(info, 1).bytes;
    if (stream.name.size() >= HAILO_MAX_STREAM_NAME_SIZE) {
        return HAILO_INVALID_HEF;
    }
    const auto status = read_base(find(info, 2).bytes, stream);
    if (HAILO_SUCCESS != status) {
        return status;
    }
    const bool is_output = (find(edge, 1).value == DEVICE_TO_HOST);
    if (!is_output || !scale_per_feature) {
        read_quantisation(find(info, 3).bytes, stream.quantisation);
    }
    (is_output ? group.outputs : group.inputs).push_back(std::move(stream));
    return HAILO_SUCCESS;
}

hailo_status read_contexts(std::string_view core, bool scale_per_feature, Group &group, std::vector<std::string> &order)
{
    Fields fields(core);
    for (Field field; fields.next(field);) {
        if (field.number == 4) {
            order.emplace_back(field.bytes);
        }
        if (field.number != 3) {
            continue;
        }
        Fields context(find(field.bytes, 3).bytes);
        for (Field edge; context.next(edge);) {
            if (edge.number != 2) {
                continue;
            }
            const auto status = read_edge(edge.bytes, scale_per_feature, group);
            if (HAILO_SUCCESS != status) {
                return status;
            }
        }
        if (context.malformed()) {
            return HAILO_HEF_FILE_CORRUPTED;
        }
    }
    return fields.malformed() ? HAILO_HEF_FILE_CORRUPTED : HAILO_SUCCESS;
}

// The part of a network group that has contexts: a layout's, an operation's, or the group itself.
std::string_view core_of(std::string_view group)
{
    const auto partial = find(group, 7).bytes;
    if (!partial.empty()) {
        return find(partial, 1).bytes;
    }
    Fields fields(group);
    for (Field field; fields.next(field);) {
        const auto core = (field.number == 8) ? find(field.bytes, 4).bytes : std::string_view();
        if (!core.empty()) {
            return core;
        }
    }
    return group;
}

Expected<Group> read_group(std::string_view message, bool scale_per_feature)
{
    const auto partial = find(message, 7).bytes;
    Group group;
    group.name = find(find(partial.empty() ? message : find(partial, 1).bytes, 1).bytes, 1).bytes;
    std::vector<std::string> order;
    const auto status = read_contexts(core_of(message), scale_per_feature, group, order);
    if (HAILO_SUCCESS != status) {
        return make_unexpected(status);
    }
    const auto place = [&](const Stream &stream) { return std::find(order.begin(), order.end(), stream.name); };
    for (const auto &output : group.outputs) {
        if (place(output) == order.end()) {
            return make_unexpected(HAILO_INTERNAL_FAILURE);
        }
    }
    std::stable_sort(group.outputs.begin(), group.outputs.end(),
        [&](const Stream &one, const Stream &other) { return place(one) < place(other); });
    return group;
}

bool has_extension(std::string_view hef, uint64_t type)
{
    Fields fields(hef);
    for (Field field; fields.next(field);) {
        if ((field.number == 5) && (find(field.bytes, 1).value == type)) {
            return true;
        }
    }
    return false;
}

} // namespace

Expected<std::pair<size_t, size_t>> sizes(std::string_view prefix)
{
    constexpr size_t HEADER_BYTES[] = {32, 28, 44, 56};
    if (prefix.size() < 12) {
        return make_unexpected(HAILO_FILE_OPERATION_FAILURE);
    }
    const auto version = big_endian(prefix, 4, 4);
    if ((big_endian(prefix, 0, 4) != 0x01484546) || (version > 3)) {
        return make_unexpected(HAILO_HEF_NOT_SUPPORTED);
    }
    return std::make_pair(HEADER_BYTES[version], static_cast<size_t>(big_endian(prefix, 8, 4)));
}

Expected<HefFile> parse(std::string_view file)
{
    const auto measured = sizes(file);
    if (!measured) {
        return make_unexpected(measured.status());
    }
    const auto [header, length] = measured.value();
    if (file.size() < header + length) {
        return make_unexpected(HAILO_FILE_OPERATION_FAILURE);
    }
    const auto proto = file.substr(header, length);
    HefFile hef;
    hef.zero_point = header + length + ((header == 56) ? big_endian(file, 28, 4) : 0);
    const bool scale_per_feature = has_extension(proto, EXTENSION_OUTPUT_SCALE_PER_FEATURE);
    Fields fields(proto);
    for (Field field; fields.next(field);) {
        if (field.number == 2) {
            auto group = read_group(field.bytes, scale_per_feature);
            if (!group) {
                return make_unexpected(group.status());
            }
            hef.groups.push_back(group.release());
        }
        if (field.number == 7) {
            hef.resources.push_back({std::string(find(field.bytes, 3).bytes), find(field.bytes, 1).value, find(field.bytes, 2).value});
        }
    }
    if (fields.malformed()) {
        return make_unexpected(HAILO_HEF_FILE_CORRUPTED);
    }
    return hef;
}

} // namespace standin
