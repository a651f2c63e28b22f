import ch.qos.logback.classic.Level;
import com.alibaba.fastjson2.JSON;
import com.alibaba.fastjson2.JSONWriter;
import com.alibaba.otter.canal.common.alarm.LogAlarmHandler;
import com.alibaba.otter.canal.connector.core.config.MQProperties;
import com.alibaba.otter.canal.connector.core.producer.AbstractMQProducer;
import com.alibaba.otter.canal.connector.core.producer.MQDestination;
import com.alibaba.otter.canal.connector.core.producer.MQMessageUtils;
import com.alibaba.otter.canal.connector.core.producer.MQMessageUtils.EntryRowData;
import com.alibaba.otter.canal.connector.core.util.Callback;
import com.alibaba.otter.canal.connector.core.util.CanalMessageSerializerUtil;
import com.alibaba.otter.canal.filter.aviater.AviaterRegexFilter;
import com.alibaba.otter.canal.instance.core.CanalMQConfig;
import com.alibaba.otter.canal.instance.spring.CanalInstanceWithSpring;
import com.alibaba.otter.canal.meta.FileMixedMetaManager;
import com.alibaba.otter.canal.parse.ha.HeartBeatHAController;
import com.alibaba.otter.canal.parse.inbound.mysql.MysqlEventParser;
import com.alibaba.otter.canal.parse.inbound.mysql.tsdb.MemoryTableMeta;
import com.alibaba.otter.canal.parse.inbound.mysql.tsdb.TableMetaTSDB;
import com.alibaba.otter.canal.parse.inbound.mysql.tsdb.TableMetaTSDBBuilder;
import com.alibaba.otter.canal.parse.inbound.mysql.tsdb.TableMetaTSDBFactory;
import com.alibaba.otter.canal.parse.index.FailbackLogPositionManager;
import com.alibaba.otter.canal.parse.index.MemoryLogPositionManager;
import com.alibaba.otter.canal.parse.index.MetaLogPositionManager;
import com.alibaba.otter.canal.parse.support.AuthenticationInfo;
import com.alibaba.otter.canal.protocol.FlatMessage;
import com.alibaba.otter.canal.protocol.Message;
import com.alibaba.otter.canal.protocol.CanalEntry.Entry;
import com.alibaba.otter.canal.protocol.position.EntryPosition;
import com.alibaba.otter.canal.server.CanalMQStarter;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import com.alibaba.otter.canal.sink.entry.EntryEventSink;
import com.alibaba.otter.canal.store.memory.MemoryEventStoreWithBuffer;
import com.alibaba.otter.canal.store.model.BatchMode;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.Writer;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.slf4j.LoggerFactory;

/**
 * Canal's own server, whose messages go to a file in place of a broker. `java CanalDriver.java FILE.properties`.
 *
 * The instance is wired as Canal's file-instance.xml wires it and takes the same properties
 * (canal.instance.*). What CanalKafkaProducer does between Canal and the broker is done here by the same
 * calls, once per output: outputs=a,b and a.flat, a.partitionsNum, a.partitionHash, a.dynamicTopic,
 * a.databaseHash, a.filterTransactionEntry. A line of `out` is OUTPUT TOPIC PARTITION BASE64(value) FILE:OFFSET
 * of the last binlog event in it. Ends when its standard input does.
 */
public class CanalDriver {
    static Properties told = new Properties();

    public static void main(String[] arguments) throws Exception {
        try (FileInputStream in = new FileInputStream(arguments[0])) {
            told.load(new InputStreamReader(in, StandardCharsets.UTF_8));
        }
        for (String name : told.stringPropertyNames()) {
            System.setProperty(name, told.getProperty(name));
        }
        ((ch.qos.logback.classic.Logger) LoggerFactory.getLogger("ROOT")).setLevel(Level.INFO);
        CanalServerWithEmbedded server = CanalServerWithEmbedded.instance();
        server.setCanalInstanceGenerator(destination -> instance(destination));
        server.start();
        server.start("example");
        FileProducer producer = new FileProducer();
        producer.init(told);
        CanalMQStarter starter = new CanalMQStarter(producer);
        starter.start("example");
        System.out.println("started");
        while (System.in.read() >= 0) { }
        starter.destroy();
        server.stop("example");
        Runtime.getRuntime().halt(0);
    }

    static String told(String name, String otherwise) {
        return told.getProperty(name, otherwise);
    }

    static boolean is(String name, boolean otherwise) {
        return Boolean.parseBoolean(told("canal.instance." + name, String.valueOf(otherwise)));
    }

    static int number(String name, int otherwise) {
        return Integer.parseInt(told("canal.instance." + name, String.valueOf(otherwise)));
    }

    static CanalInstanceWithSpring instance(String destination) {
        LogAlarmHandler alarm = new LogAlarmHandler();
        FileMixedMetaManager meta = new FileMixedMetaManager();
        meta.setDataDir(told("canal.file.data.dir", "."));
        meta.setPeriod(Integer.parseInt(told("canal.file.flush.period", "1000")));
        MemoryEventStoreWithBuffer store = new MemoryEventStoreWithBuffer();
        store.setBufferSize(number("memory.buffer.size", 16384));
        store.setBufferMemUnit(number("memory.buffer.memunit", 1024));
        store.setBatchMode(BatchMode.MEMSIZE);
        store.setDdlIsolation(is("get.ddl.isolation", false));
        store.setRaw(is("memory.rawEntry", false));
        EntryEventSink sink = new EntryEventSink();
        sink.setEventStore(store);
        sink.setFilterTransactionEntry(is("filter.transaction.entry", false));
        CanalInstanceWithSpring instance = new CanalInstanceWithSpring();
        instance.setDestination(destination);
        instance.setEventParser(parser(destination, alarm, meta, sink));
        instance.setEventSink(sink);
        instance.setEventStore(store);
        instance.setMetaManager(meta);
        instance.setAlarmHandler(alarm);
        CanalMQConfig mq = new CanalMQConfig();
        mq.setTopic("example");
        mq.setPartition(0);
        instance.setMqConfig(mq);
        return instance;
    }

    static MysqlEventParser parser(String name, LogAlarmHandler alarm, FileMixedMetaManager meta, EntryEventSink sink) {
        MysqlEventParser parser = new MysqlEventParser();
        parser.setDestination(name);
        parser.setAlarmHandler(alarm);
        parser.setEventSink(sink);
        parser.setSlaveId(1234);
        parser.setDetectingEnable(false);
        HeartBeatHAController ha = new HeartBeatHAController();
        ha.setSwitchEnable(false);
        parser.setHaController(ha);
        parser.setEventFilter(new AviaterRegexFilter(told("canal.instance.filter.regex", ".*\\..*")));
        parser.setEventBlackFilter(new AviaterRegexFilter(told("canal.instance.filter.black.regex", ""), false));
        if (told.containsKey("canal.instance.filter.field")) {
            parser.setFieldFilter(told("canal.instance.filter.field", ""));
        }
        if (told.containsKey("canal.instance.filter.black.field")) {
            parser.setFieldBlackFilter(told("canal.instance.filter.black.field", ""));
        }
        parser.setTransactionSize(number("transaction.size", 1024));
        parser.setConnectionCharset(told("canal.instance.connectionCharset", "UTF-8"));
        parser.setLogPositionManager(
            new FailbackLogPositionManager(new MemoryLogPositionManager(), new MetaLogPositionManager(meta)));
        AuthenticationInfo master = new AuthenticationInfo();
        master.setAddress(new InetSocketAddress("127.0.0.1", Integer.parseInt(told("port", ""))));
        master.setUsername("root");
        master.setPassword("");
        master.setDefaultDatabaseName(told("canal.instance.defaultDatabaseName", ""));
        parser.setMasterInfo(master);
        EntryPosition from = new EntryPosition();
        from.setJournalName(told("canal.instance.master.journal.name", ""));
        from.setPosition(Long.valueOf(told("canal.instance.master.position", "4")));
        parser.setMasterPosition(from);
        parser.setFilterQueryDml(is("filter.query.dml", false));
        parser.setFilterQueryDcl(is("filter.query.dcl", false));
        parser.setFilterQueryDdl(is("filter.query.ddl", false));
        parser.setUseDruidDdlFilter(is("filter.druid.ddl", true));
        parser.setFilterDmlInsert(is("filter.dml.insert", false));
        parser.setFilterDmlUpdate(is("filter.dml.update", false));
        parser.setFilterDmlDelete(is("filter.dml.delete", false));
        parser.setFilterRows(is("filter.rows", false));
        parser.setFilterTableError(is("filter.table.error", false));
        parser.setIsGTIDMode(is("gtidon", false));
        parser.setParallel(is("parser.parallel", true));
        parser.setParallelBufferSize(number("parser.parallelBufferSize", 256));
        tsdb(parser);
        return parser;
    }

    static void tsdb(MysqlEventParser parser) {
        String kind = told("tsdb", "memory");
        parser.setTsdbJdbcUrl(told("canal.instance.tsdb.url", ""));
        parser.setTsdbJdbcUserName(told("canal.instance.tsdb.dbUsername", ""));
        parser.setTsdbJdbcPassword(told("canal.instance.tsdb.dbPassword", ""));
        if (kind.equals("h2")) {
            parser.setTsdbSpringXml("classpath:spring/tsdb/h2-tsdb.xml");
        } else if (kind.equals("memory")) {
            parser.setTableMetaTSDBFactory(new TableMetaTSDBFactory() {
                public TableMetaTSDB build(String destination, String xml) {
                    return new Remembered();
                }

                public void destory(String destination) { }
            });
        }
        parser.setEnableTsdb(!kind.equals("off"));
    }

    /** Table shapes from the DDL that passed, in memory; there is nothing to go back to at the start. */
    static class Remembered extends MemoryTableMeta {
        @Override
        public boolean rollback(EntryPosition position) {
            return true;
        }
    }

    static class FileProducer extends AbstractMQProducer {
        Writer out;
        int batches = 0;
        final int failing = Integer.parseInt(told("fail.every", "0"));

        @Override
        public void init(Properties properties) {
            mqProperties = new MQProperties();
            super.init(properties);
            try {
                out = new OutputStreamWriter(new FileOutputStream(told("out", ""), true), StandardCharsets.UTF_8);
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }

        @Override
        public void send(MQDestination destination, Message message, Callback callback) {
            try {
                List<String> lines = new ArrayList<>();
                EntryRowData[] datas = MQMessageUtils.buildMessageData(message, buildExecutor);
                for (String output : told("outputs", "").split(",")) {
                    output(output, message, datas, lines);
                }
                batches++;
                boolean fails = failing > 0 && batches % failing == 0;
                for (String line : fails ? lines.subList(0, lines.size() / 2) : lines) {
                    out.write(line);
                    out.write('\n');
                }
                out.flush();
                if (fails) {
                    callback.rollback();
                } else {
                    callback.commit();
                }
            } catch (Throwable error) {
                error.printStackTrace();
                callback.rollback();
            }
        }

        void output(String output, Message message, EntryRowData[] datas, List<String> lines) {
            String topics = told(output + ".dynamicTopic", "");
            if (topics.isEmpty()) {
                records(output, "example", message, lines);
                return;
            }
            for (Map.Entry<String, Message> one : MQMessageUtils.messageTopics(message, "example", topics).entrySet()) {
                records(output, one.getKey().replace('.', '_'), one.getValue(), lines);
            }
        }

        void records(String output, String topic, Message message, List<String> lines) {
            String hash = told(output + ".partitionHash", "");
            int partitions = Integer.parseInt(told(output + ".partitionsNum", "1"));
            boolean byDatabase = Boolean.parseBoolean(told(output + ".databaseHash", "true"));
            boolean whole = Boolean.parseBoolean(told(output + ".filterTransactionEntry", "true"));
            boolean flat = Boolean.parseBoolean(told(output + ".flat", "true"));
            if (!flat && hash.isEmpty()) {
                lines.add(line(output, topic, 0, CanalMessageSerializerUtil.serializer(message, whole), place(message)));
                return;
            }
            EntryRowData[] datas = MQMessageUtils.buildMessageData(message, buildExecutor);
            if (!flat) {
                Message[] parts =
                    MQMessageUtils.messagePartition(datas, message.getId(), partitions, hash, byDatabase);
                for (int at = 0; at < parts.length; at++) {
                    if (parts[at] != null) {
                        byte[] value = CanalMessageSerializerUtil.serializer(parts[at], whole);
                        lines.add(line(output, topic, at, value, place(parts[at])));
                    }
                }
                return;
            }
            // messageConverter leaves out the ends of transactions, as it says
            List<String> places = new ArrayList<>();
            for (EntryRowData data : datas) {
                switch (data.entry.getEntryType()) {
                    case TRANSACTIONBEGIN:
                    case TRANSACTIONEND:
                        break;
                    default:
                        places.add(place(data.entry));
                }
            }
            int at = 0;
            for (FlatMessage one : MQMessageUtils.messageConverter(datas, message.getId())) {
                String place = places.get(at++);
                if (hash.isEmpty()) {
                    lines.add(line(output, topic, 0, json(one), place));
                    continue;
                }
                FlatMessage[] parts = MQMessageUtils.messagePartition(one, partitions, hash, byDatabase);
                for (int part = 0; part < parts.length; part++) {
                    if (parts[part] != null) {
                        lines.add(line(output, topic, part, json(parts[part]), place));
                    }
                }
            }
        }

        static byte[] json(FlatMessage message) {
            return JSON.toJSONBytes(message, JSONWriter.Feature.WriteNulls);
        }

        static String line(String output, String topic, int partition, byte[] value, String place) {
            String text = Base64.getEncoder().encodeToString(value);
            return output + "\t" + topic + "\t" + partition + "\t" + (text.isEmpty() ? "-" : text) + "\t" + place;
        }

        static String place(Message message) {
            try {
                if (!message.isRaw()) {
                    return place(message.getEntries().get(message.getEntries().size() - 1));
                }
                return place(Entry.parseFrom(message.getRawEntries().get(message.getRawEntries().size() - 1)));
            } catch (Exception error) {
                throw new RuntimeException(error);
            }
        }

        static String place(Entry entry) {
            return entry.getHeader().getLogfileName() + ":" + entry.getHeader().getLogfileOffset();
        }
    }
}
