package io.pulsaroperator.conformance;

import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;

/** Checks the keys of a loadConf map: the client's builders ignore a key that they do not know. */
final class Conf {
    private Conf() {}

    /** The given map on top of the defaults; RequestException naming the first key that the class has no field for. */
    static Map<String, Object> checked(Map<String, Object> given, Map<String, Object> defaults, Class<?> data) {
        Set<String> known = new HashSet<>();
        Arrays.stream(data.getDeclaredFields()).forEach(field -> known.add(field.getName()));
        for (String key : given.keySet()) {
            if (!known.contains(key)) {
                throw new RequestException(data.getSimpleName() + " of the Java client has no \"" + key
                        + "\": use the name of one of its fields");
            }
        }
        Map<String, Object> all = new HashMap<>(defaults);
        all.putAll(given);
        return all;
    }
}
