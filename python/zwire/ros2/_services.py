"""Services and actions of the common packages: the fields that requests and answers have."""

OWN_PACKAGES = ("example_interfaces", "std_srvs")
"""Packages that have no messages, or whose messages are not here."""

COMMON = {
    "action_msgs/srv/CancelGoal": """GoalInfo goal_info
---
int8 ERROR_NONE=0
int8 ERROR_REJECTED=1
int8 ERROR_UNKNOWN_GOAL_ID=2
int8 ERROR_GOAL_TERMINATED=3
int8 return_code
GoalInfo[] goals_canceling""",
    "diagnostic_msgs/srv/AddDiagnostics": "string load_namespace\n---\nbool success\nstring message",
    "diagnostic_msgs/srv/SelfTest": "---\nstring id\nbyte passed\nDiagnosticStatus[] status",
    "example_interfaces/srv/AddTwoInts": "int64 a\nint64 b\n---\nint64 sum",
    "example_interfaces/srv/SetBool": "bool data\n---\nbool success\nstring message",
    "example_interfaces/srv/Trigger": "---\nbool success\nstring message",
    "lifecycle_msgs/srv/ChangeState": "Transition transition\n---\nbool success",
    "lifecycle_msgs/srv/GetAvailableStates": "---\nState[] available_states",
    "lifecycle_msgs/srv/GetAvailableTransitions": "---\nTransitionDescription[] available_transitions",
    "lifecycle_msgs/srv/GetState": "---\nState current_state",
    "nav_msgs/srv/GetMap": "---\nOccupancyGrid map",
    "nav_msgs/srv/GetPlan": """geometry_msgs/PoseStamped start
geometry_msgs/PoseStamped goal
float32 tolerance
---
Path plan""",
    "nav_msgs/srv/LoadMap": """string map_url
---
uint8 RESULT_SUCCESS=0
uint8 RESULT_MAP_DOES_NOT_EXIST=1
uint8 RESULT_INVALID_MAP_DATA=2
uint8 RESULT_INVALID_MAP_METADATA=3
uint8 RESULT_UNDEFINED_FAILURE=255
OccupancyGrid map
uint8 result""",
    "nav_msgs/srv/SetMap": """OccupancyGrid map
geometry_msgs/PoseWithCovarianceStamped initial_pose
---
bool success""",
    "rcl_interfaces/srv/DescribeParameters": "string[] names\n---\nParameterDescriptor[] descriptors",
    "rcl_interfaces/srv/GetLoggerLevels": "string[] names\n---\nLoggerLevel[] levels",
    "rcl_interfaces/srv/GetParameterTypes": "string[] names\n---\nuint8[] types",
    "rcl_interfaces/srv/GetParameters": "string[] names\n---\nParameterValue[] values",
    "rcl_interfaces/srv/ListParameters": """uint64 DEPTH_RECURSIVE=0
string[] prefixes
uint64 depth
---
ListParametersResult result""",
    "rcl_interfaces/srv/SetLoggerLevels": "LoggerLevel[] levels\n---\nSetLoggerLevelsResult[] results",
    "rcl_interfaces/srv/SetParameters": "Parameter[] parameters\n---\nSetParametersResult[] results",
    "rcl_interfaces/srv/SetParametersAtomically": "Parameter[] parameters\n---\nSetParametersResult result",
    "sensor_msgs/srv/SetCameraInfo": "CameraInfo camera_info\n---\nbool success\nstring status_message",
    "std_srvs/srv/Empty": "---",
    "std_srvs/srv/SetBool": "bool data\n---\nbool success\nstring message",
    "std_srvs/srv/Trigger": "---\nbool success\nstring message",
    "tf2_msgs/srv/FrameGraph": "---\nstring frame_yaml",
    "type_description_interfaces/srv/GetTypeDescription": """string type_name
string type_hash
bool include_type_sources true
---
bool successful
string failure_reason
TypeDescription type_description
TypeSource[] type_sources
KeyValue[] extra_information""",
    "visualization_msgs/srv/GetInteractiveMarkers": """---
uint64 sequence_number
InteractiveMarker[] markers""",
    "example_interfaces/action/Fibonacci": "int32 order\n---\nint32[] sequence\n---\nint32[] sequence",
    "tf2_msgs/action/LookupTransform": """string target_frame
string source_frame
builtin_interfaces/Time source_time
builtin_interfaces/Duration timeout
builtin_interfaces/Time target_time
string fixed_frame
bool advanced
---
geometry_msgs/TransformStamped transform
TF2Error error
---""",
}
