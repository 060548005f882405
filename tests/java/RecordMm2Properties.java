import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.connect.mirror.MirrorClientConfig;
import org.apache.kafka.connect.mirror.MirrorMaker;
import org.apache.kafka.connect.mirror.MirrorMakerConfig;
import org.apache.kafka.connect.mirror.SourceAndTarget;

/**
 * Prints what Kafka's own classes make of properties files. Standard input: a JSON object per line, with the file's bytes
 * as `text` (a character each) and `kind`: `properties`, `mm2` or `names`. Standard output: the same objects with `recorded`.
 */
public class RecordMm2Properties {
    private static final ObjectMapper JSON =
            new ObjectMapper().configure(SerializationFeature.ORDER_MAP_ENTRIES_BY_KEYS, true);

    public static void main(String[] args) throws Exception {
        PrintStream out = System.out;
        System.setOut(System.err); // the loggers of Kafka's classes write there
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode asked = JSON.readTree(line);
            Map<String, Object> answer = new TreeMap<>();
            asked.properties().forEach(member -> answer.put(member.getKey(), member.getValue()));
            answer.put("recorded", recorded(asked.get("kind").asText(), asked.get("text").asText()));
            out.println(JSON.writeValueAsString(answer));
        }
        out.flush();
        System.exit(0);
    }

    private static Map<String, Object> recorded(String kind, String text) throws Exception {
        Map<String, Object> found = new TreeMap<>();
        if (kind.equals("names")) {
            MirrorMakerConfig config = new MirrorMakerConfig(Map.of("clusters", "A,B"));
            Method names = MirrorMakerConfig.class.getDeclaredMethod("allConfigNames");
            names.setAccessible(true);
            found.put("connectors", new TreeSet<>((Set<?>) names.invoke(config)));
            Object definition = field(MirrorClientConfig.class, "CLIENT_CONFIG_DEF");
            found.put("clients", new TreeSet<>(((org.apache.kafka.common.config.ConfigDef) definition).names()));
            return found;
        }
        Map<String, String> properties;
        try {
            Properties loaded = new Properties();
            loaded.load(new ByteArrayInputStream(text.getBytes(StandardCharsets.ISO_8859_1)));
            properties = Utils.propsToStringMap(loaded);
        } catch (IllegalArgumentException error) {
            found.put("error", error.getMessage());
            return found;
        }
        if (kind.equals("properties")) {
            found.put("properties", new TreeMap<>(properties));
            return found;
        }
        try {
            Map<String, String> quick = new HashMap<>(properties);
            // Otherwise every class of the class path is looked at for plugins, for seconds.
            quick.put("plugin.discovery", "service_load");
            MirrorMakerConfig config = new MirrorMakerConfig(quick);
            found.put("clusters", new TreeSet<>(config.clusters()));
            found.put("internal_rest", config.enableInternalRest());
            Map<String, Object> flows = new TreeMap<>();
            for (SourceAndTarget pair : config.clusterPairs()) {
                flows.put(pair.toString(), flow(config, pair));
            }
            found.put("flows", flows);
        } catch (RuntimeException error) {
            found.put("error", error.getMessage());
        }
        return found;
    }

    private static Map<String, Object> flow(MirrorMakerConfig config, SourceAndTarget pair) {
        Map<String, Object> flow = new TreeMap<>();
        flow.put("worker", config.workerConfig(pair));
        Map<String, Object> connectors = new TreeMap<>();
        Map<String, String> first = null;
        for (Class<?> kind : MirrorMaker.CONNECTOR_CLASSES) {
            Map<String, String> whole = new TreeMap<>(config.connectorBaseConfig(pair, kind));
            if (first == null) {
                first = whole;
                flow.put("common", whole);
            }
            // Only what differs from the first one, so that the fixture stays small.
            Map<String, String> own = new TreeMap<>(whole);
            for (Map.Entry<String, String> entry : first.entrySet()) {
                if (entry.getValue().equals(whole.get(entry.getKey()))) {
                    own.remove(entry.getKey());
                } else if (!whole.containsKey(entry.getKey())) {
                    own.put(entry.getKey(), null);
                }
            }
            connectors.put(kind.getSimpleName(), own);
        }
        flow.put("connectors", connectors);
        return flow;
    }

    private static Object field(Class<?> of, String name) throws Exception {
        java.lang.reflect.Field field = of.getDeclaredField(name);
        field.setAccessible(true);
        return field.get(null);
    }
}
