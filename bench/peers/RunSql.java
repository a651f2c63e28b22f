import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.GlobalConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/** Executes the statements of a file, each to its end: `RunSql FILE streaming|batch`. */
public class RunSql {
    public static void main(String[] words) throws Exception {
        Configuration settings = GlobalConfiguration.loadConfiguration();
        settings.setString("execution.runtime-mode", words[1]);
        TableEnvironment tables = TableEnvironment.create(
                EnvironmentSettings.newInstance().withConfiguration(settings).build());
        for (String statement : Files.readString(Path.of(words[0])).split(";\n")) {
            tables.executeSql(statement).await();
        }
    }
}
