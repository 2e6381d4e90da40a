import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.StringJoiner;
import software.amazon.event.ruler.Machine;

/**
 * event-ruler with rules and events from files, then one command per line.
 *
 * <p>count K: how many rules each of the first K events matches. run N: how many
 * matches the next N events have in all.
 */
public final class Peer {
    public static void main(String[] paths) throws Exception {
        List<String> rules = Files.readAllLines(Path.of(paths[0]));
        String[] events = Files.readAllLines(Path.of(paths[1])).toArray(new String[0]);
        Machine machine = new Machine();
        long began = System.nanoTime();
        for (int number = 0; number < rules.size(); number++) {
            machine.addRule(Integer.toString(number), rules.get(number));
        }
        System.out.println((System.nanoTime() - began) / 1e9);
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in));
        int next = 0;
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            String[] words = line.split(" ");
            int count = Integer.parseInt(words[1]);
            if (words[0].equals("count")) {
                StringJoiner counts = new StringJoiner(" ");
                for (int i = 0; i < count; i++) {
                    counts.add(Integer.toString(machine.rulesForJSONEvent(events[i]).size()));
                }
                System.out.println(counts);
                continue;
            }
            long matches = 0;
            for (int i = 0; i < count; i++) {
                matches += machine.rulesForJSONEvent(events[next]).size();
                next = next + 1 == events.length ? 0 : next + 1;
            }
            System.out.println(matches);
        }
    }
}
