import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.ApiKeys;

/**
 * What a release of Kafka says of topic configs. Each line of standard input is a JSON object; the answer to each is a
 * line of JSON:
 *
 * <pre>
 * {}            the keys with type, default and validator, and the latest version of every API of a broker
 * {"k": "v"}    the message with which these overrides are refused; "" if they are taken
 * </pre>
 */
public class KafkaTopicConfigs {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            JsonNode overrides = JSON.readTree(line);
            System.out.println(overrides.size() == 0 ? table() : JSON.valueToTree(refusal(overrides)));
        }
    }

    private static ObjectNode table() throws Exception {
        ObjectNode table = JSON.createObjectNode();
        ArrayNode keys = table.putArray("keys");
        for (ConfigDef.ConfigKey key : definition().configKeys().values()) {
            ObjectNode row = keys.addObject();
            row.put("name", key.name).put("type", key.type.name().toLowerCase());
            row.put("default", ConfigDef.convertToString(key.defaultValue, key.type));
            describe(key.validator, row);
        }
        ObjectNode apis = table.putObject("apis");
        for (ApiKeys api : brokerApis()) {
            apis.put(String.valueOf(api.id), api.latestVersion());
        }
        return table;
    }

    private static void describe(ConfigDef.Validator validator, ObjectNode row) throws Exception {
        if (validator instanceof ConfigDef.Range) {
            put(row, "least", field(validator, "min"));
            put(row, "most", field(validator, "max"));
        } else if (validator instanceof ConfigDef.ValidString) {
            row.set("values", JSON.valueToTree(field(validator, "validStrings")));
        } else if (validator instanceof ConfigDef.ValidList) {
            row.set("values", JSON.valueToTree(field(field(validator, "validString"), "validStrings")));
        } else if (validator != null) {
            row.put("validator", validator.getClass().getSimpleName().replace("$", "")).put("shown", validator.toString());
        }
    }

    private static void put(ObjectNode row, String name, Object value) {
        if (value != null) {
            row.set(name, JSON.valueToTree(value));
        }
    }

    private static Object field(Object object, String name) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    /** A field of the class in Java, and of its companion object while it was in Scala. */
    private static ConfigDef definition() throws Exception {
        Class<?> type = logConfig();
        Object companion = null;
        if (type.getName().startsWith("kafka.")) {
            type = Class.forName(type.getName() + "$");
            companion = type.getField("MODULE$").get(null);
        }
        for (Field field : type.getDeclaredFields()) {
            if (ConfigDef.class.isAssignableFrom(field.getType()) && !field.getName().equals("SERVER_CONFIG_DEF")) {
                field.setAccessible(true);
                return (ConfigDef) field.get(companion);
            }
        }
        throw new IllegalStateException("no definition in " + type);
    }

    private static Class<?> logConfig() throws ClassNotFoundException {
        try {
            return Class.forName("org.apache.kafka.storage.internals.log.LogConfig");
        } catch (ClassNotFoundException e) {
            return Class.forName("kafka.log.LogConfig");
        }
    }

    @SuppressWarnings("unchecked")
    private static Collection<ApiKeys> brokerApis() throws Exception {
        try {
            return (Collection<ApiKeys>) ApiKeys.class.getMethod("zkBrokerApis").invoke(null);
        } catch (NoSuchMethodException e) {
            return List.of(ApiKeys.values());
        }
    }

    private static String refusal(JsonNode overrides) throws Exception {
        Properties properties = new Properties();
        overrides.fields().forEachRemaining(entry -> properties.setProperty(entry.getKey(), entry.getValue().asText()));
        Method validate = validate();
        Object[] arguments = new Object[validate.getParameterCount()];
        boolean isFirst = true;
        for (int position = 0; position < arguments.length; position++) {
            Class<?> type = validate.getParameterTypes()[position];
            if (type == Properties.class) {
                arguments[position] = properties;
            } else if (type == Map.class) {
                // The last map has a broker's defaults; while it is empty, some checks are left out.
                boolean isLast = position > 0 && arguments[position - 1] == properties;
                arguments[position] = isLast ? Map.of("segment.jitter.ms", "0") : Collections.emptyMap();
            } else {
                // The first says whether there is tiered storage, the second whether the cluster is on ZooKeeper.
                arguments[position] = !isFirst;
                isFirst = false;
            }
        }
        try {
            validate.invoke(null, arguments);
            return "";
        } catch (InvocationTargetException e) {
            return String.valueOf(e.getCause().getMessage());
        }
    }

    /** The overload that brokers call: the one that is told most. */
    private static Method validate() throws Exception {
        Method found = null;
        for (Method method : logConfig().getDeclaredMethods()) {
            if (method.getName().equals("validate") && Modifier.isStatic(method.getModifiers())
                    && (found == null || method.getParameterCount() > found.getParameterCount())) {
                found = method;
            }
        }
        return found;
    }
}
