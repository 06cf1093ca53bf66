import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Messages by Kafka's own classes. Each line of standard input has a command, the name of a message, a version and a
 * value; the answer to each is a line of bytes in hexadecimal, or "-" where this release has no such version.
 *
 * <pre>
 * encode NAME VERSION JSON   the bytes of the message
 * repeat NAME VERSION HEX    the bytes after they were read and written again
 * header NAME VERSION x      the version of the header before the message
 * </pre>
 */
public class KafkaMessages {
    private static final String PACKAGE = "org.apache.kafka.common.message.";
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] parts = line.split(" ", 4);
            System.out.println(answer(parts[0], parts[1], Short.parseShort(parts[2]), parts[3]));
        }
    }

    private static String answer(String command, String name, short version, String value) throws Exception {
        Message empty;
        try {
            empty = (Message) Class.forName(PACKAGE + name + "Data").getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException e) {
            return "-";
        }
        if (version < empty.lowestSupportedVersion() || version > empty.highestSupportedVersion()) {
            return "-";
        }
        switch (command) {
            case "encode":
                return hex(fromJson(name, version, JSON.readTree(value)), version);
            case "repeat":
                empty.read(new ByteBufferAccessor(ByteBuffer.wrap(HexFormat.of().parseHex(value))), version);
                return hex(empty, version);
            default:
                return headerVersion(name, version);
        }
    }

    private static Message fromJson(String name, short version, JsonNode node) throws Exception {
        Class<?> converter = Class.forName(PACKAGE + name + "DataJsonConverter");
        return (Message) converter.getMethod("read", JsonNode.class, short.class).invoke(null, node, version);
    }

    private static String headerVersion(String name, short version) throws Exception {
        boolean isRequest = name.endsWith("Request");
        String stem = name.substring(0, name.length() - (isRequest ? "Request" : "Response").length());
        String constant = stem.replaceAll("(?<=[a-z])(?=[A-Z])", "_").toUpperCase();
        Class<?> types = Class.forName(PACKAGE + "ApiMessageType");
        Method method = types.getMethod(isRequest ? "requestHeaderVersion" : "responseHeaderVersion", short.class);
        return method.invoke(types.getField(constant).get(null), version).toString();
    }

    private static String hex(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return HexFormat.of().formatHex(buffer.array(), 0, buffer.position());
    }
}
