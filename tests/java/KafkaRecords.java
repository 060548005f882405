import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.PrimitiveRef;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.LogValidator;

/**
 * What Kafka itself reads in batches of bytes. Run as `java -cp 'libs/*' KafkaRecords.java FILE`.
 *
 * FILE: lines of "name kind hex". kind `source`: as a consumer reads it. kind `target`: first, a broker that has got it
 * from an idempotent producer validates it, as on a produce request, and its result is what is read.
 * Output: a line "name ok" or "name Exception: text", then one line for each record, its fields in hex, "-" for null:
 * "offset timestamp key value header=value …". Control batches give no records.
 */
public class KafkaRecords {
    static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        StringBuilder out = new StringBuilder();
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            String[] words = line.split(" ", 3);
            StringBuilder records = new StringBuilder();
            String verdict = "ok";
            try {
                ByteBuffer bytes = ByteBuffer.wrap(HEX.parseHex(words[2]));
                read(words[1].equals("target") ? appended(MemoryRecords.readableRecords(bytes)) : MemoryRecords.readableRecords(bytes), records);
            } catch (Exception error) {
                verdict = error.getClass().getSimpleName() + ": " + String.valueOf(error.getMessage()).replace('\n', ' ');
            }
            out.append(words[0]).append(' ').append(verdict).append('\n').append(records);
        }
        System.out.write(out.toString().getBytes(StandardCharsets.US_ASCII));
        System.out.flush();
    }

    static void read(MemoryRecords records, StringBuilder out) {
        for (MutableRecordBatch batch : records.batches()) {
            batch.ensureValid();
            for (Record record : batch) {
                record.ensureValid();
                if (batch.isControlBatch()) {
                    continue;
                }
                out.append(record.offset()).append(' ').append(record.timestamp());
                out.append(' ').append(hex(record.key())).append(' ').append(hex(record.value()));
                for (Header header : record.headers()) {
                    out.append(' ').append(HEX.formatHex(header.key().getBytes(StandardCharsets.UTF_8))).append('=');
                    out.append(header.value() == null ? "-" : HEX.formatHex(header.value()));
                }
                out.append('\n');
            }
        }
    }

    static String hex(ByteBuffer bytes) {
        if (bytes == null) {
            return "-";
        }
        byte[] content = new byte[bytes.remaining()];
        bytes.duplicate().get(content);
        return HEX.formatHex(content);
    }

    static MemoryRecords appended(MemoryRecords records) {
        RecordBatch batch = records.firstBatch();
        batch.ensureValid();
        if (batch.baseOffset() != 0 || batch.sizeInBytes() != records.sizeInBytes() || !batch.hasProducerId()) {
            throw new IllegalArgumentException("one batch of an idempotent producer, from offset 0");
        }
        CompressionType type = batch.compressionType();
        return new LogValidator(records, new TopicPartition("target", 0), Time.SYSTEM, type, Compression.of(type).build(), false,
            RecordBatch.CURRENT_MAGIC_VALUE, TimestampType.CREATE_TIME, Long.MAX_VALUE, Long.MAX_VALUE, 0, AppendOrigin.CLIENT)
            .validateMessagesAndAssignOffsets(PrimitiveRef.ofLong(0), new Unmeasured(), BufferSupplier.create()).validatedRecords();
    }

    static class Unmeasured implements LogValidator.MetricsRecorder {
        public void recordInvalidMagic() { }
        public void recordInvalidOffset() { }
        public void recordInvalidSequence() { }
        public void recordInvalidChecksums() { }
        public void recordNoKeyCompactedTopic() { }
    }
}
