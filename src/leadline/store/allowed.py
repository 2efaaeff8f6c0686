"""What user SQL may be made of. Plain lists: what is not here is refused.

A function belongs here if it computes from its arguments alone. It does not if it reads anything else (files,
addresses, dictionaries, other tables, the server's state), takes the name of a function or table as a text, or
waits.

Nor does it if its time grows with the product of its arguments' sizes: the engine looks at its time limit between
blocks of rows, not within a function, and a few rows can be made as large as memory allows. Tried with a limit of 2 s
on chDB 26.9, of a core for each row: editDistance of two texts of 30 kB 1.3 s; hasAny of two arrays of 100,000 numbers
6 s; extractAll of 100 kB with `(a|b)*c|.` 11 s; positionCaseInsensitive of 1 MB that nearly matches 100 kB
everywhere more than 20 s. So these are left out, and what works like them (hasAll, mapUpdate, replaceRegexpAll,
multiSearchAnyCaseInsensitive, and ILIKE but for a short text).
"""

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_AGGREGATES = """
any anyLast argMax argMin avg avgWeighted corr count countDistinct covarPop covarSamp deltaSum
deltaSumTimestamp entropy first_value groupArray groupArraySorted groupUniqArray kurtPop kurtSamp last_value max
median min quantile quantileDeterministic quantileExact quantileExactHigh quantileExactLow
quantileTDigest quantileTiming quantiles quantilesExact quantilesTDigest simpleLinearRegression skewPop skewSamp
stddevPop stddevSamp sum sumKahan topK uniq uniqCombined uniqExact uniqHLL12 varPop varSamp
boundingRatio rankCorr histogram
"""

# Aggregates take these endings: countIf, argMaxIf, sumOrNull, ...
_COMBINATORS = ("If", "OrNull", "OrDefault", "Distinct", "Array", "ArrayIf", "OrNullIf")

_WINDOW = """
row_number rank dense_rank percent_rank cume_dist ntile lag lead lagInFrame leadInFrame nth_value
"""

_NUMBERS = """
abs ceil ceiling exp exp2 exp10 floor gcd greatest intDiv intDivOrZero intExp2 isFinite isInfinite isNaN lcm least
ln log log10 log1p log2 max2 min2 mod modulo moduloOrZero negate plus minus multiply divide pi positiveModulo pow
power round roundBankers sign sqrt cbrt trunc truncate bitAnd bitOr bitXor bitNot bitShiftLeft bitShiftRight bitTest
bitCount equals notEquals less lessOrEquals greater greaterOrEquals and or not xor if multiIf ifNull nullIf
coalesce isNull isNotNull isZeroOrNull assumeNotNull toNullable ifNotFinite sin cos tan atan atan2 hypot degrees
radians width_bucket
"""

_TEXT = """
ascii char concat concatWithSeparator concat_ws empty endsWith extract format hex unhex bin
initcap left right leftPad rightPad lpad rpad length lengthUTF8 locate lower lowerUTF8 lcase ltrim match
like notLike multiSearchAny notEmpty position
positionUTF8 regexpExtract repeat replace replaceAll replaceOne replaceRegexpOne reverse rtrim
splitByChar splitByString splitByWhitespace startsWith substr substring substringIndex substringUTF8 mid
toValidUTF8 translate trim trimBoth trimLeft trimRight ucase upper upperUTF8 arrayStringConcat
formatReadableSize formatReadableQuantity formatReadableTimeDelta formatReadableDecimalSize
countSubstrings hasToken isValidUTF8
JSONExtract JSONExtractString JSONExtractInt JSONExtractUInt JSONExtractFloat JSONExtractBool JSONExtractRaw
JSONExtractArrayRaw JSONExtractKeys JSONHas JSONLength JSONType isValidJSON simpleJSONExtractString
simpleJSONExtractInt simpleJSONExtractFloat toJSONString
"""

_CONVERSIONS = """
accurateCast accurateCastOrNull accurateCastOrDefault cast try_cast toBool toDecimal32 toDecimal64 toDecimal128
toFixedString toFloat32 toFloat32OrNull toFloat32OrZero toFloat64 toFloat64OrNull toFloat64OrZero toInt8 toInt16
toInt32 toInt32OrNull toInt32OrZero toInt64 toInt64OrNull toInt64OrZero toInt128 toInt256 toLowCardinality toString
toTypeName toUInt8 toUInt16 toUInt32 toUInt32OrNull toUInt32OrZero toUInt64 toUInt64OrNull toUInt64OrZero toUInt128
toUInt128OrNull toUInt128OrZero toUInt256 reinterpret reinterpretAsUInt128 reinterpretAsUInt64 reinterpretAsInt64
reinterpretAsFloat64 reinterpretAsString reinterpretAsFixedString byteSwap
toIPv4 toIPv6 IPv4NumToString IPv4StringToNum IPv6NumToString IPv6StringToNum isIPv4String isIPv6String
isIPAddressInRange IPv4CIDRToRange
"""

_TIMES = """
addDays addHours addMicroseconds addMilliseconds addMinutes addMonths addNanoseconds addQuarters addSeconds addWeeks
addYears age date_add date_diff date_sub date_trunc dateAdd dateDiff dateName dateSub dateTrunc formatDateTime
fromUnixTimestamp fromUnixTimestamp64Micro fromUnixTimestamp64Milli fromUnixTimestamp64Nano
fromUnixTimestamp64Second makeDate makeDateTime makeDateTime64 monthName now now64 nowInBlock
parseDateTime parseDateTimeBestEffort parseDateTimeBestEffortOrNull parseDateTime64BestEffort
parseDateTime64BestEffortOrNull subDate subtractDays subtractHours subtractMinutes subtractMonths subtractSeconds
subtractWeeks subtractYears timeSlot timestamp_add timestamp_diff timestamp_sub toDate toDate32 toDateOrNull
toDateTime toDateTime64 toDateTime64OrNull toDateTimeOrNull toDayOfMonth toDayOfWeek toDayOfYear toHour
toIntervalDay toIntervalHour toIntervalMicrosecond toIntervalMillisecond toIntervalMinute toIntervalMonth
toIntervalNanosecond toIntervalQuarter toIntervalSecond toIntervalWeek toIntervalYear toISOWeek toISOYear
toLastDayOfMonth toMinute toMonday toMonth toQuarter toRelativeDayNum toRelativeHourNum toRelativeMinuteNum
toSecond toStartOfDay toStartOfFifteenMinutes toStartOfFiveMinutes toStartOfHour toStartOfInterval
toStartOfMicrosecond toStartOfMillisecond toStartOfMinute toStartOfMonth toStartOfNanosecond toStartOfQuarter
toStartOfSecond toStartOfTenMinutes toStartOfWeek toStartOfYear toTime toTimeZone toTimezone toUnixTimestamp
toUnixTimestamp64Micro toUnixTimestamp64Milli toUnixTimestamp64Nano toUnixTimestamp64Second toWeek toYear
toYYYYMM toYYYYMMDD toYYYYMMDDhhmmss today yesterday timezoneOffset
"""

_COLLECTIONS = """
array arrayAll arrayAUC arrayAvg arrayCompact arrayConcat arrayCount arrayCumSum arrayDifference arrayDistinct
arrayElement arrayElementOrNull arrayEnumerate arrayEnumerateDense arrayEnumerateUniq arrayExists arrayFill arrayFilter
arrayFirst arrayFirstIndex arrayFlatten arrayFold arrayIntersect arrayJoin arrayLast arrayLastIndex arrayMap
arrayMax arrayMin arrayPopBack arrayPopFront arrayProduct arrayPushBack arrayPushFront arrayReverse arrayReverseSort
arraySlice arraySort arraySplit arraySum arrayUniq arrayWithConstant arrayZip countEqual emptyArrayString flatten has
indexOf length map mapAdd mapContains mapContainsKey mapContainsKeyLike mapExtractKeyLike mapApply
mapExists mapAll mapFilter mapFromArrays mapKeys mapSort mapSubtract mapValues range tuple tupleElement
"""

_HASHES = "cityHash64 murmurHash3_128 murmurHash3_64 sipHash64 xxHash64 MD5 SHA256 crc32 halfMD5 intHash64"

_aggregates = _AGGREGATES.split()

# Names in lower case: ClickHouse takes some in any case, and no harmful function differs from one of these by
# case alone.
FUNCTIONS: frozenset[str] = frozenset(
    name.lower()
    for name in (
        *_aggregates,
        *(name + ending for name in _aggregates for ending in _COMBINATORS),
        *" ".join((_WINDOW, _NUMBERS, _TEXT, _CONVERSIONS, _TIMES, _COLLECTIONS, _HASHES)).split(),
    )
)

# Types that take arguments in brackets.
TYPES: frozenset[str] = _words("""
    nullable lowcardinality array map tuple datetime datetime64 decimal decimal32 decimal64 decimal128 fixedstring
    enum8 enum16
""")

# Words that may stand before an opening bracket without being a function.
KEYWORDS: frozenset[str] = _words("""
    all and any as between by case distinct else except exists from having ilike in interval is join like limit not
    offset on or over qualify replace select then union using when where with partition order
""")

# Names of the node classes of sqlglot that may appear; functions (exp.Func) are checked by name instead.
NODES: frozenset[str] = _words("""
    Add Alias And Anonymous AnonymousAggFunc Array Between BitwiseAnd BitwiseOr BitwiseXor Boolean
    Bracket CTE Case Cast Column CombinedAggFunc CombinedParameterizedAgg DPipe DataType DataTypeParam Distinct Div Dot
    EQ Except Exists Filter From GT GTE Group Having ILike Identifier If In IntDiv Intersect Interval Is Join LT LTE
    Lambda Like Limit LimitBy Literal Mod Mul NEQ Neg Not Null NullSafeEQ Offset Or Order Ordered ParameterizedAgg Paren
    PropertyEQ Qualify Select Star Struct Sub Subquery Table TableAlias Tuple Union Var Where Window WindowSpec With Xor
    """)

# Parts that a node of these classes may have.
PARTS: dict[str, frozenset[str]] = {
    "Select": _words("with_ expressions distinct from_ joins where group having qualify order limit offset windows"),
    "Union": _words("with_ this expression distinct order limit offset by_name"),
    "Except": _words("with_ this expression distinct order limit offset"),
    "Intersect": _words("with_ this expression distinct order limit offset"),
    "Subquery": _words("this alias with_ order limit offset joins"),
    "Table": _words("this db alias joins"),
    "TableAlias": frozenset({"this"}),
    "CTE": _words("this alias scalar"),
    "With": frozenset({"expressions"}),
    "Join": _words("this on using side kind method global_ expressions"),
    "In": _words("this expressions query is_global"),
    "Star": frozenset({"except_"}),
    "Column": _words("this table db"),
    "Group": _words("expressions totals all"),
}
