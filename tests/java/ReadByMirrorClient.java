import java.io.FileInputStream;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.connect.mirror.RemoteClusterUtils;

/** Prints what Kafka's own client of MirrorMaker's topics finds: properties file, alias of the source, group. */
public class ReadByMirrorClient {
    public static void main(String[] args) throws Exception {
        Properties file = new Properties();
        try (FileInputStream in = new FileInputStream(args[0])) {
            file.load(in);
        }
        Map<String, Object> config = new HashMap<>();
        file.forEach((name, value) -> config.put((String) name, value));
        System.out.println("upstream " + new TreeSet<>(RemoteClusterUtils.upstreamClusters(config)));
        System.out.println("hops " + RemoteClusterUtils.replicationHops(config, args[1]));
        System.out.println("checkpoints " + new TreeSet<>(RemoteClusterUtils.checkpointTopics(config)));
        Map<String, String> offsets = new TreeMap<>();
        for (Map.Entry<TopicPartition, OffsetAndMetadata> each
                : RemoteClusterUtils.translateOffsets(config, args[1], args[2], Duration.ofSeconds(20)).entrySet()) {
            offsets.put(each.getKey().toString(), each.getValue().offset() + " " + each.getValue().metadata());
        }
        System.out.println("offsets " + offsets);
    }
}
