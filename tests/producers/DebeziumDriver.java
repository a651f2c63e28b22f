import io.debezium.engine.DebeziumEngine;
import io.debezium.engine.ChangeEvent;
import io.debezium.embedded.Connect;
import java.io.FileReader;
import java.io.FileWriter;
import java.io.PrintWriter;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.connect.header.Header;
import org.apache.kafka.connect.source.SourceRecord;
import org.apache.kafka.connect.storage.Converter;
import org.apache.kafka.connect.storage.HeaderConverter;

/**
 * A connector with Kafka Connect's own converters and no broker. Each record is a line of the file `out`:
 * topic, key, value, and a name and value for each header, in base64 but for the topic; - is null.
 *
 * Properties: the engine's, out, key.converter, value.converter, header.converter (each with its own options
 * behind its name). It ends in order when its input does.
 */
public class DebeziumDriver {
    public static void main(String[] arguments) throws Exception {
        Properties told = new Properties();
        try (FileReader file = new FileReader(arguments[0], StandardCharsets.UTF_8)) {
            told.load(file);
        }
        Converter keys = converter(told, "key.converter", true);
        Converter values = converter(told, "value.converter", false);
        HeaderConverter headers = (HeaderConverter) Class.forName(
                told.getProperty("header.converter", "org.apache.kafka.connect.storage.SimpleHeaderConverter"))
                .getDeclaredConstructor().newInstance();
        headers.configure(options(told, "header.converter"));
        PrintWriter out = new PrintWriter(new FileWriter(told.getProperty("out"), StandardCharsets.UTF_8, true));
        // the engine has converters of its own
        Properties engine = new Properties();
        told.forEach((name, value) -> {
            if (!name.toString().matches("(key|value|header)\\.converter.*|out")) {
                engine.put(name, value);
            }
        });
        DebeziumEngine<ChangeEvent<SourceRecord, SourceRecord>> running = DebeziumEngine.create(Connect.class)
                .using(engine)
                .using((success, message, error) -> {
                    System.err.println("ended " + success + " " + message + " " + error);
                    if (error != null) {
                        error.printStackTrace();
                    }
                    System.err.flush();
                    Runtime.getRuntime().halt(success ? 0 : 1);
                })
                .notifying((List<ChangeEvent<SourceRecord, SourceRecord>> batch,
                        DebeziumEngine.RecordCommitter<ChangeEvent<SourceRecord, SourceRecord>> committer) -> {
                    for (ChangeEvent<SourceRecord, SourceRecord> event : batch) {
                        out.println(line(event.value(), keys, values, headers));
                        out.flush();
                        committer.markProcessed(event);
                    }
                    committer.markBatchFinished();
                })
                .build();
        ExecutorService thread = Executors.newSingleThreadExecutor();
        thread.execute(running);
        while (System.in.read() >= 0) {
            // until the input ends
        }
        running.close();
        thread.shutdown();
        thread.awaitTermination(10, TimeUnit.SECONDS);
        out.close();
        System.exit(0);
    }

    private static String line(SourceRecord record, Converter keys, Converter values, HeaderConverter headers) {
        StringBuilder line = new StringBuilder(record.topic());
        line.append(' ').append(text(keys.fromConnectData(record.topic(), record.keySchema(), record.key())));
        line.append(' ').append(text(values.fromConnectData(record.topic(), record.valueSchema(), record.value())));
        for (Header header : record.headers()) {
            line.append(' ').append(text(header.key().getBytes(StandardCharsets.UTF_8))).append(' ').append(
                    text(headers.fromConnectHeader(record.topic(), header.key(), header.schema(), header.value())));
        }
        return line.toString();
    }

    private static String text(byte[] bytes) {
        return bytes == null ? "-" : "=" + Base64.getEncoder().encodeToString(bytes);
    }

    private static Converter converter(Properties told, String name, boolean key) throws Exception {
        Converter made = (Converter) Class.forName(
                told.getProperty(name, "org.apache.kafka.connect.json.JsonConverter")).getDeclaredConstructor()
                .newInstance();
        made.configure(options(told, name), key);
        return made;
    }

    private static Map<String, Object> options(Properties told, String name) {
        Map<String, Object> found = new HashMap<>();
        told.forEach((key, value) -> {
            if (key.toString().startsWith(name + ".")) {
                found.put(key.toString().substring(name.length() + 1), value);
            }
        });
        if (name.startsWith("header")) {
            found.put("converter.type", "header");
        }
        return found;
    }
}
