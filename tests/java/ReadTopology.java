import java.io.FileInputStream;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.connect.mirror.MirrorClient;

/** Prints where Kafka's own client thinks that the topics of clusters come from: aliases with commas, then properties files. */
public class ReadTopology {
    public static void main(String[] args) throws Exception {
        for (int number = 1; number < args.length; number++) {
            Properties file = new Properties();
            try (FileInputStream in = new FileInputStream(args[number])) {
                file.load(in);
            }
            Map<String, Object> config = new HashMap<>();
            file.forEach((name, value) -> config.put((String) name, value));
            try (MirrorClient client = new MirrorClient(config)) {
                Map<String, Integer> hops = new TreeMap<>();
                for (String alias : args[0].split(",")) {
                    hops.put(alias, client.replicationHops(alias));
                }
                System.out.println("upstream " + new TreeSet<>(client.upstreamClusters()) + " hops " + hops
                        + " remote " + new TreeSet<>(client.remoteTopics()));
            }
        }
    }
}
