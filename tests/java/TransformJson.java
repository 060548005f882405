import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.kafka.connect.data.SchemaAndValue;
import org.apache.kafka.connect.json.JsonConverter;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.transforms.Transformation;

/**
 * What Kafka's own transformations make of JSON. Run as `java -cp 'libs/*' TransformJson.java FILE`.
 *
 * FILE: one case a line, in JSON: {"chain": [[class, {setting: text}], ...], "records": [[key, value, timestamp], ...]}, keys and
 * values in hex or null. Each record goes through JsonConverter, the chain, and JsonConverter again. "key" and "value" have the
 * settings of the converters; without them it is schemas.enable=false.
 * Output: a line for each case, in JSON: {"refused": text} if the chain can't be configured, else {"records": [...]}, each
 * one [key, value], [] if it was dropped, or the class and text of the error, as one text.
 */
public class TransformJson {
    static final HexFormat HEX = HexFormat.of();
    static final ObjectMapper MAPPER = new ObjectMapper();
    static final String TOPIC = "primary.orders";
    static final int PARTITION = 3;

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        try (BufferedReader lines = Files.newBufferedReader(Path.of(arguments[0]))) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                out.println(MAPPER.writeValueAsString(answer(MAPPER.readTree(line))));
            }
        }
        out.flush();
    }

    static JsonConverter converter(JsonNode settings, boolean isKey) {
        Map<String, String> given = new HashMap<>(Map.of("schemas.enable", "false"));
        if (settings != null) {
            settings.fields().forEachRemaining(one -> given.put(one.getKey(), one.getValue().textValue()));
        }
        JsonConverter found = new JsonConverter();
        found.configure(given, isKey);
        return found;
    }

    @SuppressWarnings("unchecked")
    static ObjectNode answer(JsonNode asked) throws Exception {
        JsonConverter keys = converter(asked.get("key"), true);
        JsonConverter values = converter(asked.get("value"), false);
        ObjectNode answer = MAPPER.createObjectNode();
        List<Transformation<SourceRecord>> chain = new ArrayList<>();
        try {
            for (JsonNode each : asked.get("chain")) {
                Transformation<SourceRecord> made =
                    (Transformation<SourceRecord>) Class.forName(each.get(0).asText()).getDeclaredConstructor().newInstance();
                Map<String, String> settings = new HashMap<>();
                each.get(1).fields().forEachRemaining(one -> settings.put(one.getKey(), one.getValue().textValue()));
                made.configure(settings);
                chain.add(made);
            }
        } catch (RuntimeException error) {
            return answer.put("refused", error.getClass().getSimpleName() + ": " + error.getMessage());
        }
        List<Object> records = new ArrayList<>();
        for (JsonNode record : asked.get("records")) {
            records.add(transformed(record, chain, keys, values));
        }
        answer.set("records", MAPPER.valueToTree(records));
        return answer;
    }

    static Object transformed(
        JsonNode record, List<Transformation<SourceRecord>> chain, JsonConverter keys, JsonConverter values
    ) {
        String stage = "converter";
        try {
            SchemaAndValue key = keys.toConnectData(TOPIC, bytes(record.get(0)));
            SchemaAndValue value = values.toConnectData(TOPIC, bytes(record.get(1)));
            SourceRecord now = new SourceRecord(
                Map.of(), Map.of(), TOPIC, PARTITION, key.schema(), key.value(), value.schema(), value.value(),
                record.get(2).longValue()
            );
            stage = "transformation";
            for (Transformation<SourceRecord> each : chain) {
                now = each.apply(now);
                if (now == null) {
                    return List.of();
                }
            }
            stage = "converter";
            List<String> made = new ArrayList<>();
            made.add(hex(keys.fromConnectData(TOPIC, now.keySchema(), now.key())));
            made.add(hex(values.fromConnectData(TOPIC, now.valueSchema(), now.value())));
            return made;
        } catch (Exception error) {
            return stage + " " + error.getClass().getSimpleName() + ": " + error.getMessage();
        }
    }

    static byte[] bytes(JsonNode hex) {
        return hex.isNull() ? null : HEX.parseHex(hex.asText());
    }

    static String hex(byte[] bytes) {
        return bytes == null ? null : HEX.formatHex(bytes);
    }
}
