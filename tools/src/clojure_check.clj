;; Evaluates the programs of the standard input, a vector of [id program expected], in one JVM, and prints a
;; line for each that gives something else: the id, the likeness, what is expected and what Clojure gives, tabs
;; between. `expected` is the text of a value, or nil for a program that has to fail.
(require '[clojure.edn :as edn] '[clojure.string :as string] '[clojure.set :as set] '[clojure.walk :as walk])

(def patience-ms 2000)
(def items-max 5000)
(def answer-chars-max 200)

(def not-clojures
  "What Clojure says of a name that it does not have; such a program is not compared."
  #"Unable to resolve|No such (namespace|var)|ClassNotFound|No matching (field|method)|Unable to find static")

(defn replace-both
  "`replace` without a prefix is that of clojure.core or of clojure.string, by the number of arguments."
  ([smap coll] (replace smap coll))
  ([text match replacement] (string/replace text match replacement)))

(defn fresh-ns
  "A namespace with the names that programs use without a prefix."
  []
  (let [name (gensym "program")]
    (binding [*ns* (create-ns name)]
      (refer-clojure)
      (ns-unmap *ns* 'replace)
      (intern *ns* 'replace replace-both)
      (alias 'str 'clojure.string)
      (alias 'string 'clojure.string)
      (alias 'set 'clojure.set)
      (alias 'walk 'clojure.walk)
      (refer 'clojure.string :only '[join trim triml trimr trim-newline upper-case lower-case capitalize starts-with?
                                     ends-with? includes? index-of last-index-of blank? split split-lines])
      (refer 'clojure.set :only '[union intersection difference subset? superset? rename-keys map-invert])
      (refer 'clojure.walk :only '[prewalk postwalk])
      (import 'java.time.LocalDate 'java.time.Instant 'java.time.Duration)
      *ns*)))

(defn plain
  "Values as the language has them: characters are strings, sequences and entries vectors, times their text."
  [value]
  (cond
    (map? value) (into {} (map (fn [[k v]] [(plain k) (plain v)])) value)
    (set? value) (into #{} (map plain) value)
    (or (sequential? value) (instance? java.util.List value)) (mapv plain (take items-max value))
    (var? value) nil
    (char? value) (str value)
    (instance? java.util.Date value) (str (.toInstant ^java.util.Date value))
    (or (instance? java.util.regex.Pattern value)
        (instance? java.time.LocalDate value)
        (instance? java.time.Instant value)) (str value)
    :else value))

(defn same? [a b]
  (or (= a b)
      (and (number? a) (number? b) (== a b) (= (float? a) (float? b)))
      (= (pr-str a) (pr-str b))))

(defn unordered
  "The value with every sequence sorted, so that only its items count."
  [value]
  (walk/postwalk #(if (sequential? %) (vec (sort-by pr-str %)) %) value))

(defn by-value
  "The value with every number as a double."
  [value]
  (walk/postwalk #(if (number? %) (double %) %) value))

(defn spelled
  "The value with what spells numbers and collections in text taken out."
  [value]
  (walk/postwalk
    #(if (string? %) (-> % (string/replace #"(?<=\d)E(?=-?\d)" "e") (string/replace ", " " ")) %)
    value))

(def likenesses
  "Each but for one difference of a kind; the first that makes both the same counts."
  [["order" unordered] ["numbers" by-value] ["spelling" spelled]])

(defn likeness [a b]
  (or (first (keep (fn [[name of]] (when (same? (of a) (of b)) name)) likenesses)) "-"))

(defn cause [^Throwable error]
  (if-let [inner (.getCause error)] (recur inner) error))

(defn answer
  "[:value v], or [:raised text]; nil when a name is not Clojure's."
  [program]
  (let [ns (fresh-ns)
        job (future
              (try
                (binding [*ns* ns *out* (java.io.StringWriter.) *err* (java.io.StringWriter.)]
                  [:value (plain (load-string program))])
                (catch Throwable error
                  (let [error (cause error)
                        text (str (.getSimpleName (class error)) ": " (.getMessage ^Throwable error))]
                    (when-not (re-find not-clojures text)
                      [:raised (first (string/split-lines text))])))))
        found (deref job patience-ms [:raised "no answer in time"])]
    (future-cancel job)
    (remove-ns (ns-name ns))
    found))

(defn difference
  "[likeness text] when Clojure's answer is not the expected one."
  [wanted [how found]]
  (cond
    (= how :raised) (when wanted ["-" (str "raised: " found)])
    (nil? wanted) ["-" (pr-str found)]
    (same? (first wanted) found) nil
    :else [(likeness (first wanted) found) (pr-str found)]))

(let [cases (edn/read-string (slurp *in*))
      compared (atom 0)]
  (doseq [[id program expected] cases]
    (when-let [found (answer program)]
      (let [wanted (when expected
                     (try [(plain (edn/read-string {:default (fn [_ v] v)} expected))] (catch Throwable _ :unreadable)))]
        (when-not (= wanted :unreadable)
          (swap! compared inc)
          (when-let [[like text] (difference wanted found)]
            (println (string/join "\t" [id like (or expected "fails")
                                        (string/replace (subs text 0 (min answer-chars-max (count text)))
                                                        #"[\t\r\n\f\u000b\u0085\u2028\u2029]" " ")])))))))
  (println (str "compared\t" @compared))
  (shutdown-agents)
  (System/exit 0))
