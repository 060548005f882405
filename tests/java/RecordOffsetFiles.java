import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.runtime.standalone.StandaloneConfig;
import org.apache.kafka.connect.storage.FileOffsetBackingStore;
import org.apache.kafka.connect.storage.MemoryOffsetBackingStore;

/**
 * What Kafka's FileOffsetBackingStore writes and reads. Standard input: a JSON object per line with a `kind`:
 * `store` (sets `entries`, pairs of hex or null, and gives the `file` in hex; it begins with `before`, if that is there), `map` (serializes a HashMap with `capacity` and
 * `load_factor`; equal hex is one and the same array), `linked` (the same of a LinkedHashMap), `other` (a String), and `read`
 * (loads `file`). Standard output: the same objects with `file`, and `recorded`: what the store has after it has loaded that
 * file, or the class of its exception.
 */
public class RecordOffsetFiles {
    private static final ObjectMapper JSON =
            new ObjectMapper().configure(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS, true);
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // the loggers of Kafka's classes write there
        Path path = Files.createTempFile("connect", ".offsets");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            Map<String, Object> answer = new TreeMap<>();
            asked.properties().forEach(member -> answer.put(member.getKey(), member.getValue()));
            byte[] file = file(asked, path);
            answer.put("file", HEX.formatHex(file));
            answer.put("recorded", read(file, path));
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
        Files.delete(path);
        System.exit(0);
    }

    private static byte[] file(JsonNode asked, Path path) throws Exception {
        switch (asked.get("kind").asText()) {
            case "read":
                return HEX.parseHex(asked.get("file").asText());
            case "store":
                Files.write(path, asked.has("before") ? HEX.parseHex(asked.get("before").asText()) : new byte[0]);
                FileOffsetBackingStore store = store(path);
                Map<ByteBuffer, ByteBuffer> values = new HashMap<>();
                entries(asked, new HashMap<>(), false).forEach((key, value) -> values.put(buffer(key), buffer(value)));
                store.set(values, null).get();
                store.stop();
                return Files.readAllBytes(path);
            case "map":
                return serialized(entries(asked, new HashMap<>(
                        asked.get("capacity").asInt(), (float) asked.get("load_factor").asDouble()), true));
            case "linked":
                return serialized(entries(asked, new LinkedHashMap<>(), true));
            default:
                return serialized("offsets");
        }
    }

    private static Map<byte[], byte[]> entries(JsonNode asked, Map<byte[], byte[]> into, boolean shared) {
        Map<String, byte[]> arrays = new HashMap<>();
        for (JsonNode entry : asked.get("entries")) {
            into.put(array(entry.get(0), arrays, shared), array(entry.get(1), arrays, shared));
        }
        return into;
    }

    private static byte[] array(JsonNode hex, Map<String, byte[]> arrays, boolean shared) {
        if (hex.isNull()) {
            return null;
        }
        return shared ? arrays.computeIfAbsent(hex.asText(), HEX::parseHex) : HEX.parseHex(hex.asText());
    }

    private static byte[] serialized(Object object) throws Exception {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        try (ObjectOutputStream stream = new ObjectOutputStream(bytes)) {
            stream.writeObject(object);
        }
        return bytes.toByteArray();
    }

    private static Object read(byte[] file, Path path) throws Exception {
        Files.write(path, file);
        try {
            FileOffsetBackingStore store = store(path);
            Field data = MemoryOffsetBackingStore.class.getDeclaredField("data");
            data.setAccessible(true);
            Map<String, String> found = new TreeMap<>();
            for (Map.Entry<?, ?> entry : ((Map<?, ?>) data.get(store)).entrySet()) {
                found.put(String.valueOf(hex(entry.getKey())), hex(entry.getValue()));
            }
            store.stop();
            return found;
        } catch (Throwable error) {
            return error.getClass().getName();
        }
    }

    private static FileOffsetBackingStore store(Path path) {
        JsonConverter converter = new JsonConverter();
        converter.configure(Map.of("schemas.enable", "false"), true);
        FileOffsetBackingStore store = new FileOffsetBackingStore(converter);
        store.configure(new StandaloneConfig(Map.of(
                "bootstrap.servers", "localhost:1",
                "key.converter", "org.apache.kafka.connect.json.JsonConverter",
                "value.converter", "org.apache.kafka.connect.json.JsonConverter",
                "offset.storage.file.filename", path.toString())));
        store.start();
        return store;
    }

    private static ByteBuffer buffer(byte[] array) {
        return array == null ? null : ByteBuffer.wrap(array);
    }

    private static String hex(Object buffer) {
        return buffer == null ? null : HEX.formatHex(((ByteBuffer) buffer).array());
    }
}
