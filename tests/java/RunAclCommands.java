import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.kafka.tools.AclCommand;

/** Runs kafka-acls.sh for each line of a file, in one Java VM. A line's arguments are separated by tabs. */
public class RunAclCommands {
    public static void main(String[] arguments) throws Exception {
        for (String line : Files.readAllLines(Path.of(arguments[0]))) {
            // It ends the process with 1 by itself if it fails.
            AclCommand.main(line.split("\t"));
        }
    }
}
