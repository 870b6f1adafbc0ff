# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_logtool_global_optspecs
    string join \n color= h/help V/version
end

function __fish_logtool_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_logtool_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_logtool_using_subcommand
    set -l cmd (__fish_logtool_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c logtool -n "__fish_logtool_needs_command" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_needs_command" -s h -l help -d 'Print help'
complete -c logtool -n "__fish_logtool_needs_command" -s V -l version -d 'Print version'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "write" -d 'Write standard input into a log, one entry a line'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "cat" -d 'Print the entries of logs'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "tail" -d 'Print the last entries of logs, and follow them'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "verify" -d 'Check every checksum, link and number of logs'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "repair" -d 'Make a damaged log sound again, with its losses declared'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "decompress" -d 'Give back what was written'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "stat" -d 'Show the segments of logs: state, times, sequence numbers, sizes'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "level" -d 'Show and change which levels a running program logs'
complete -c logtool -n "__fish_logtool_needs_command" -f -a "tour" -d 'Show on this disk what logtool is for'
complete -c logtool -n "__fish_logtool_using_subcommand write" -l roll-bytes -d 'Begin a new segment before one grows above SIZE' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l roll-every -d 'Begin a new segment each DUR, counted from 1970 UTC; 24h: at midnight UTC' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l keep-segments -d 'Keep at most N segments, the one that is written included; the oldest are removed' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l keep-bytes -d 'Keep at most SIZE in all, quarantine and rings included' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l keep-age -d 'Remove segments whose newest entry is older than DUR' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l keep-free -d 'Remove the oldest segments while less than SIZE, or so many percent, of the file system are free' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l compress -d 'Compress: none, zstd or zstd:LEVEL with a level from 1 (fast) to 19 (small)' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l sync -d 'Bring entries to stable storage: never, each, batch, or at most DUR after they were written' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l on-full -d 'When the disk is full, also at the start' -r -f -a "block\t'Wait until there is room; the program in front of the pipe waits too'
drop\t'Refuse entries and count them in the log'
remove-oldest\t'Remove the oldest segments'"
complete -c logtool -n "__fish_logtool_using_subcommand write" -l mode -d 'Permission bits of new files, in octal; the umask takes from them' -r
complete -c logtool -n "__fish_logtool_using_subcommand write" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand write" -l tee -d 'Copy each line to standard output after it was written to the log'
complete -c logtool -n "__fish_logtool_using_subcommand write" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l since -d 'Entries at or after time T' -r
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l until -d 'Entries at or before time T' -r
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l seq -d 'Entries with these sequence numbers: A..B, A.., ..B or A, both ends included' -r
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l level -d 'Entries of this level or a graver one' -r -f -a "trace\t'Finest detail'
debug\t'For the developer'
info\t'Normal course of things'
warn\t'Odd, but handled'
error\t'Something failed'
fatal\t'The program cannot go on'"
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l category -d 'Entries of category C or of one below it (net also takes net.http); may be repeated: any of them' -r
complete -c logtool -n "__fish_logtool_using_subcommand cat" -s g -l grep -d 'Entries whose text matches the regular expression' -r
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l where -d 'Entries with a field that compares so: FIELD then = != < <= > >= or ~ then VALUE; may be repeated: all must hold' -r
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l format -d 'Form of the output' -r -f -a "text\t'The line itself; structured entries as time, level, category, thread, place in the source and message'
json\t'One JSON object a line'
logfmt\t'Pairs of key=value, one line an entry'
raw\t'The bytes of the line, or the message, and nothing else'"
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand cat" -s r -l recursive -d 'Take all logs below a directory; without it, a directory that is no log itself is refused'
complete -c logtool -n "__fish_logtool_using_subcommand cat" -s i -l ignore-case -d '-g matches upper and lower case alike'
complete -c logtool -n "__fish_logtool_using_subcommand cat" -s v -l invert-match -d 'Entries whose text does not match -g'
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l json -d 'Short for --format json'
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l timestamps -d 'In the text form, put its time before each entry made by `logtool write`'
complete -c logtool -n "__fish_logtool_using_subcommand cat" -l utc -d 'Show and read times in UTC instead of the local zone; json shows UTC in any case'
complete -c logtool -n "__fish_logtool_using_subcommand cat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -s n -l lines -d 'Print the last N entries; with +K, begin with the K-th' -r
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l cursor-file -d 'Begin where the cursor in FILE stands, and keep it up to date' -r -F
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l since -d 'Entries at or after time T' -r
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l until -d 'Entries at or before time T' -r
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l seq -d 'Entries with these sequence numbers: A..B, A.., ..B or A, both ends included' -r
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l level -d 'Entries of this level or a graver one' -r -f -a "trace\t'Finest detail'
debug\t'For the developer'
info\t'Normal course of things'
warn\t'Odd, but handled'
error\t'Something failed'
fatal\t'The program cannot go on'"
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l category -d 'Entries of category C or of one below it (net also takes net.http); may be repeated: any of them' -r
complete -c logtool -n "__fish_logtool_using_subcommand tail" -s g -l grep -d 'Entries whose text matches the regular expression' -r
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l where -d 'Entries with a field that compares so: FIELD then = != < <= > >= or ~ then VALUE; may be repeated: all must hold' -r
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l format -d 'Form of the output' -r -f -a "text\t'The line itself; structured entries as time, level, category, thread, place in the source and message'
json\t'One JSON object a line'
logfmt\t'Pairs of key=value, one line an entry'
raw\t'The bytes of the line, or the message, and nothing else'"
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand tail" -s r -l recursive -d 'Take all logs below a directory; without it, a directory that is no log itself is refused'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -s f -l follow -d 'Go on as the log grows; -F is the same'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -s i -l ignore-case -d '-g matches upper and lower case alike'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -s v -l invert-match -d 'Entries whose text does not match -g'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l json -d 'Short for --format json'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l timestamps -d 'In the text form, put its time before each entry made by `logtool write`'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -l utc -d 'Show and read times in UTC instead of the local zone; json shows UTC in any case'
complete -c logtool -n "__fish_logtool_using_subcommand tail" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand verify" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand verify" -l json -d 'Report in JSON, one object a log'
complete -c logtool -n "__fish_logtool_using_subcommand verify" -s q -l quiet -d 'Print no report; the exit status tells, and standard error what could not be read'
complete -c logtool -n "__fish_logtool_using_subcommand verify" -l strict -d 'Count losses that an earlier repair has declared as findings too'
complete -c logtool -n "__fish_logtool_using_subcommand verify" -l utc -d 'Show times in UTC instead of the local zone'
complete -c logtool -n "__fish_logtool_using_subcommand verify" -s r -l recursive -d 'Take all logs below a directory; without it, a directory that is no log itself is refused'
complete -c logtool -n "__fish_logtool_using_subcommand verify" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand repair" -s o -l output -d 'Leave the log as it is and write a clean copy, with its losses declared, into the new directory' -r -f -a "(__fish_complete_directories)"
complete -c logtool -n "__fish_logtool_using_subcommand repair" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand repair" -l dry-run -d 'Print the plan and change nothing'
complete -c logtool -n "__fish_logtool_using_subcommand repair" -l strict -d 'Exit with status 1 also where all losses are declared'
complete -c logtool -n "__fish_logtool_using_subcommand repair" -l utc -d 'Show times in UTC instead of the local zone'
complete -c logtool -n "__fish_logtool_using_subcommand repair" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand decompress" -s o -l output -d 'Write into FILE instead of standard output; with --frames, into the new directory' -r -F
complete -c logtool -n "__fish_logtool_using_subcommand decompress" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand decompress" -l frames -d 'Write uncompressed segments, which `logtool verify` can check, instead of text; of one PATH'
complete -c logtool -n "__fish_logtool_using_subcommand decompress" -s f -l force -d 'Replace FILE if it exists'
complete -c logtool -n "__fish_logtool_using_subcommand decompress" -s r -l recursive -d 'Take all logs below a directory; without it, a directory that is no log itself is refused'
complete -c logtool -n "__fish_logtool_using_subcommand decompress" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand stat" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand stat" -l json -d 'In JSON, one object a log'
complete -c logtool -n "__fish_logtool_using_subcommand stat" -l prometheus -d 'In the text form of Prometheus, all logs together'
complete -c logtool -n "__fish_logtool_using_subcommand stat" -l utc -d 'Show times in UTC instead of the local zone'
complete -c logtool -n "__fish_logtool_using_subcommand stat" -s r -l recursive -d 'Take all logs below a directory; without it, a directory that is no log itself is refused'
complete -c logtool -n "__fish_logtool_using_subcommand stat" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand level" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand level" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c logtool -n "__fish_logtool_using_subcommand tour" -l color -d 'When to use colour: auto, always, never' -r -f -a "auto\t'On a terminal, unless NO_COLOR is set or TERM is dumb'
always\t'In any case'
never\t'In no case'"
complete -c logtool -n "__fish_logtool_using_subcommand tour" -l child -d 'Be the child process that writes and is killed'
complete -c logtool -n "__fish_logtool_using_subcommand tour" -s h -l help -d 'Print help (see more with \'--help\')'
